"""`hybridjob ls|status|logs|cancel|resume`: runs as seen from the login node. Imports no torch."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hybridjob.errors import RunError
from hybridjob.runs.cancelling import cancel
from hybridjob.runs.facts import read_brief, read_facts
from hybridjob.runs.find import all_runs, find_run
from hybridjob.runs.listing import list_lines, row_values
from hybridjob.runs.outside import look_at, look_closely, runner
from hybridjob.runs.screen import status_lines
from hybridjob.runs.status import status_values
from hybridjob.runs.watching import print_styled, watch

if TYPE_CHECKING:
    from hybridjob.runs.facts import Brief
    from hybridjob.runs.find import Run

_RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A job's id, a run's name, or a path of either.")
]
NewestOrNamed = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]",
        help="A job's id, a run's name, or a path of either; the newest if not given.",
    ),
]
RunsFolder = Annotated[
    Path, typer.Option("--runs", metavar="DIR", help="Where the runs are.", show_default=True)
]
RUNS = Path("runs")
_MOST_NOTES = 3
_Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program's."""
    app.command("ls")(list_runs)
    app.command("status")(status)
    app.command("logs")(logs)
    app.command("cancel")(cancel_run)
    app.command("resume")(resume)


def list_runs(
    *,
    runs: RunsFolder = RUNS,
    sweep: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only the runs of this sweep.")
    ] = None,
    number: Annotated[
        int, typer.Option("--number", "-n", metavar="N", help="How many; 0 lists all.", min=0)
    ] = 20,
    as_json: _Json = False,
) -> None:
    """List runs, newest first."""
    found = all_runs(runs)
    briefs: list[Brief] = []
    unreadable = list(found.unreadable)
    for one in found.runs:
        if number and len(briefs) == number:
            break
        try:
            brief = read_brief(one)
        except RunError as error:
            unreadable.append(str(error))
            continue
        if sweep is None or (brief.origin is not None and brief.origin.sweep == sweep):
            briefs.append(brief)
    seen, now = look_at(briefs), time.time()
    rows = [row_values(brief, seen[brief.run.job_id], now) for brief in briefs]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    elif rows:
        print_styled(list_lines(rows, _width()))
    else:
        what = f"no run of a sweep {sweep!r}" if sweep else "no run"
        typer.echo(f"{what} in {runs}: go to where you submitted, or give --runs DIR", err=True)
    notes = dict.fromkeys(row["problem"] for row in rows if row["problem"])
    notes |= dict.fromkeys(unreadable[:_MOST_NOTES])
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    if len(unreadable) > _MOST_NOTES:
        typer.echo(f"note: and {len(unreadable) - _MOST_NOTES} more cannot be read", err=True)
    if number and sweep is None and len(found.runs) > len(briefs) >= number:
        typer.echo(f"and {len(found.runs) - number} older: -n 0 lists all", err=True)


def status(
    run: NewestOrNamed = None,
    *,
    runs: RunsFolder = RUNS,
    as_json: _Json = False,
    watched: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again and again until it is over.")
    ] = False,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", help="How often --watch looks.", min=0.2)
    ] = 5.0,
    heal: Annotated[
        bool, typer.Option(help="Repair a job that waits for a component which has ended.")
    ] = True,
) -> None:  # fmt: skip
    """Show how a run does, on one screen."""
    chosen = find_run(run, runs, run=runner())

    def values() -> dict[str, Any]:
        facts = read_facts(chosen)
        return status_values(facts, look_closely(facts, mend=heal), time.time())

    def show(current: dict[str, Any]) -> list[str]:
        if as_json:
            return [json.dumps(current, indent=None if watched else 1)]
        return status_lines(current, time.time(), _width() or 80)

    if watched:
        watch(values, show, every_s=every)
    else:
        print_styled(show(values()))


def logs(
    run: _RunName,
    *,
    runs: RunsFolder = RUNS,
    role: Annotated[
        str | None, typer.Option(metavar="ROLE", help="master, ps or trainer; or ps1.")
    ] = None,
    rank: Annotated[int | None, typer.Option(metavar="N", help="One rank only.", min=0)] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run is over.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(metavar="N", help="Only the last N lines.", min=1)
    ] = None,
) -> None:
    """Print the logs of all ranks, merged by time."""
    from hybridjob.runs.showing_logs import show_logs  # noqa: PLC0415 - for this command only

    show_logs(find_run(run, runs, run=runner()), role=role, rank=rank, follow=follow, tail=tail)


def cancel_run(
    run: _RunName,
    *,
    runs: RunsFolder = RUNS,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long to wait for the end.", min=0)
    ] = 120.0,
) -> None:
    """End a run for good: all its components, and no life after it.

    Its ranks are told, and save if they can. What is saved can be resumed.
    """
    chosen = find_run(run, runs, run=runner())
    _refuse_several(chosen, run, runs)
    seen = cancel(chosen, timeout_s=timeout, say=typer.echo)
    checkpoints = read_facts(chosen).checkpoints
    saved = f"saved at step {checkpoints[-1].step:,}" if checkpoints else "nothing was saved"
    typer.echo(f"job {chosen.job_id} of {chosen.name}: {seen.state.value}, {saved}")


def resume(
    run: _RunName,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value ...]",
            help="Keys of the job file to change, such as ps.nodes=3 or slurm.time=2:00:00.",
            show_default=False,
        ),
    ] = None,
    *,
    runs: RunsFolder = RUNS,
    executor: Annotated[
        str | None,
        typer.Option(metavar="slurm|local", help="As the run before if not given."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow the job on Slurm until it ends.")
    ] = False,
) -> None:
    """Submit a new job that goes on from a run's newest checkpoint, with other sizes if you like.

    The run's own folder stays as it is. It must be over.
    """
    from hybridjob.cli import start  # noqa: PLC0415 - it imports this module
    from hybridjob.launch import executor_name  # noqa: PLC0415 - for this command only
    from hybridjob.runs.resuming import plan_resumption, stage  # noqa: PLC0415

    chosen = find_run(run, runs, run=runner())
    brief = read_brief(chosen)
    seen = look_at([brief])[chosen.job_id]
    plan = plan_resumption(chosen, seen, overrides or [])
    for line in plan.damage:
        typer.echo(f"passed over: {line}", err=True)
    typer.echo(f"going on from step {plan.step:,} of job {chosen.job_id}")
    if plan.trainers_before != plan.job.layout.num_trainers:
        typer.echo(
            f"its {plan.trainers_before} trainers had dealt the data among themselves; with "
            f"{plan.job.layout.num_trainers} the running epoch begins again"
        )
    kind = executor_name(executor) or ("local" if brief.local else None)
    origin = brief.origin
    folders = [Path(one) for one in origin.code_folders] if origin else [Path.cwd()]
    staged = stage(plan)
    try:
        code = start(
            plan.job,
            kind,
            folders,
            wait=wait,
            checkpoints=staged,
            resumed_from=str(chosen.folder.path),
            resumed_step=plan.step,
        )
    finally:
        shutil.rmtree(staged, ignore_errors=True)  # where submission took it, it is not there
    raise SystemExit(code)


def _refuse_several(chosen: Run, text: str, root: Path) -> None:
    """Refuse a name of several jobs that are not over: nobody could say which one is meant."""
    if text == chosen.job_id or Path(text).name == chosen.job_id:
        return
    same = [one for one in all_runs(root).runs if one.name == chosen.name]
    briefs = [read_brief(one) for one in same]
    going_on = [job_id for job_id, one in look_at(briefs).items() if not one.state.is_over]
    if len(going_on) > 1:
        raise RunError(
            f"{len(going_on)} jobs of {chosen.name} are not over: say which by its id, "
            f"{', '.join(going_on)}"
        )


def _width() -> int | None:
    """Give the terminal's width; None in a pipe, where nothing is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
