"""`hybridjob report RUN`. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hybridjob.errors import ReportError, RunError
from hybridjob.jobfolder import write_atomically
from hybridjob.report.facts import gather
from hybridjob.report.page import render_page
from hybridjob.runs.facts import read_brief
from hybridjob.runs.find import find_run
from hybridjob.runs.outside import look_at, runner
from hybridjob.runs.state import RunState
from hybridjob.runs_cli import RUNS, NewestOrNamed, RunsFolder
from slurm.usage import query_usage

if TYPE_CHECKING:
    from hybridjob.report.facts import Facts
    from hybridjob.runs.find import Run


def report(
    run: NewestOrNamed = None,
    *,
    runs: RunsFolder = RUNS,
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
    chosen = find_run(run, runs, run=runner())
    page = render_page(facts_of(chosen))
    target = out if out is not None else chosen.folder.path / "report.html"
    try:
        write_atomically(target, page)
    except OSError as error:
        raise ReportError(
            f"cannot write {target}: {error.strerror}. Give another place by --out FILE"
        ) from error
    typer.echo(f"{target} ({len(page.encode()) / 1e6:.1f} MB)")


def facts_of(run: Run) -> Facts:
    """Read a run's folder, and ask Slurm, or this machine, what has become of it."""
    ask = runner()
    try:
        brief = read_brief(run)
    except RunError as error:
        return gather(run.folder, RunState.UNKNOWN.value, problem=str(error))
    seen = look_at([brief], run=ask)[run.job_id]
    usage = () if brief.local or not brief.num_lives else query_usage(run.job_id, run=ask)
    return gather(run.folder, seen.state.value, usage, seen.problem)
