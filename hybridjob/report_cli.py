"""`hybridjob report RUN`. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hybridjob.errors import ReportError
from hybridjob.jobfolder import write_atomically
from hybridjob.report.facts import gather
from hybridjob.report.find import find_job
from hybridjob.report.page import render_page
from hybridjob.report.state import is_slurm_job, state_of
from slurm.usage import query_usage


def report(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's name, a job's id, or a job's folder.")
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Where the page goes; report.html in the job's folder if not given.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write one HTML page about a run: what it learnt, how fast, and what happened to it.

    The page holds everything, needs no network, and can be mailed. It is made from the run's
    folder, for a run that goes on, has ended or failed.
    """
    folder = find_job(run)
    usage = query_usage(folder.path.name) if is_slurm_job(folder) else ()
    page = render_page(gather(folder, state_of(folder), usage))
    target = out if out is not None else folder.path / "report.html"
    try:
        write_atomically(target, page)
    except OSError as error:
        raise ReportError(
            f"cannot write {target}: {error.strerror}. Give another place by --out FILE"
        ) from error
    typer.echo(f"{target} ({len(page.encode()) / 1e6:.1f} MB)")
