"""`hybridjob doctor JOB.toml`. Imports no torch."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hybridjob.doctor.examine import examine
from hybridjob.doctor.finding import Level
from hybridjob.doctor.on_nodes import check_nodes
from hybridjob.jobfile import load_job
from hybridjob.launch import code_folders_of, executor_name

if TYPE_CHECKING:
    from hybridjob.doctor.finding import Finding

_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.BAD: "red"}


def doctor(
    job_file: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job file.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value ...]", help="As for submit.", show_default=False),
    ] = None,
    *,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="slurm|local", help="For which of them; slurm if not given.", show_default=False
        ),
    ] = None,
    on_nodes: Annotated[
        bool,
        typer.Option("--on-nodes", help="Also run a short job of the same shape that looks there."),
    ] = False,
    wait: Annotated[
        float, typer.Option("--wait", metavar="S", help="Seconds that this job may take to start.")
    ] = 300.0,
) -> None:
    """Say what may keep a job from running, before it is submitted.

    One line a finding: ok, warn or bad, what was found, and what to change. The exit code is 1 if
    any is bad.
    """
    job = load_job(job_file, overrides or [])
    kind = executor_name(executor) or ("slurm" if shutil.which("sbatch") else "local")
    code_folders = code_folders_of(job_file)
    counts: Counter[Level] = Counter()
    for finding in examine(job, kind, code_folders):
        _tell(finding, counts)
    if on_nodes and not counts[Level.BAD]:
        typer.echo(f"trying on the nodes, for at most {wait:.0f} s ...")
        for finding in check_nodes(job, kind, code_folders, wait_s=wait):
            _tell(finding, counts)
    elif on_nodes:
        typer.echo("the nodes are not tried before what is bad is mended")
    typer.echo(", ".join(f"{counts[level]} {level.value}" for level in Level))
    if counts[Level.BAD]:
        raise typer.Exit(1)


def _tell(finding: Finding, counts: Counter[Level]) -> None:
    counts[finding.level] += 1
    line = str(finding)
    width = len(finding.level.value)
    typer.echo(typer.style(line[:width], fg=_COLOURS[finding.level], bold=True) + line[width:])
