"""The command line. Imports no torch: a login node answers at once."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from hybridjob.errors import ConfigError, HybridjobError, LaunchError, RunError
from hybridjob.jobfile import load_job
from hybridjob.launch import (
    ExecutorName,
    choose_executor,
    code_folders_of,
    executor_name,
    launch,
    script_of,
)
from hybridjob.runs.phrases import counted
from slurm.errors import SlurmError

if TYPE_CHECKING:
    from hybridjob.config import Job

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Hybrid-parallel training on Slurm.",
)
_DETACHED = 130


@app.callback()
def _program() -> None:
    """Hybrid-parallel training on Slurm."""


@app.command()
def submit(
    job_file: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job file.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value ...]",
            help="Keys of the job file to set, such as trainer.nodes=2 or seed=7.",
            show_default=False,
        ),
    ] = None,
    *,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="slurm|local",
            help="slurm submits one heterogeneous job; local starts its tasks on this machine. "
            "Slurm if sbatch is there.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the script that would be submitted.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow the job on Slurm until it ends.")
    ] = False,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="key=value,value,...",
            help="Submit a job for each value, or each combination if given several times.",
        ),
    ] = None,
    at_once: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many jobs of a sweep run at once."),
    ] = None,
) -> None:
    """Submit a training job.

    On Slurm it prints the job's id and returns; locally it shows the run until it ends, and
    Ctrl-C ends all its processes. The exit code is 0 if the run completed (or was submitted), 2 for
    a mistake in the job file or on the command line, 1 for a failure.
    """
    try:
        if sweep:
            from hybridjob.sweep_cli import submit_sweep  # noqa: PLC0415 - not for one job

            raise SystemExit(
                submit_sweep(
                    job_file,
                    overrides or [],
                    sweep,
                    at_once=at_once,
                    asked=executor_name(executor),
                    code_folders=code_folders_of(job_file),
                    dry_run=dry_run,
                )
            )
        raise SystemExit(
            _submit(job_file, overrides or [], executor_name(executor), dry_run=dry_run, wait=wait)
        )
    except HybridjobError as error:
        _give_up(error)


@app.command("heal")
def heal_job(
    job_id: Annotated[str, typer.Argument(metavar="JOBID", help="Slurm's id of the job.")],
) -> None:
    """Repair a job of which Slurm has requeued only some components.

    That happens when the only node of a component is lost: the job's leader then waits for ever.
    It says in one line what it saw and did; a job that is well is left alone.
    """
    from slurm.heal import heal  # noqa: PLC0415 - not for `submit`

    try:
        typer.echo(heal(job_id).text)
    except SlurmError as error:
        raise LaunchError(str(error)) from error


def _submit(
    job_file: Path,
    overrides: list[str],
    asked: ExecutorName | None,
    *,
    dry_run: bool,
    wait: bool,
) -> int:
    job = load_job(job_file, overrides)
    code_folders = code_folders_of(job_file)
    if dry_run:
        sys.stdout.write(script_of(job, asked or "slurm", code_folders))
        return 0
    return start(job, asked, code_folders, wait=wait)


def start(
    job: Job,
    asked: ExecutorName | None,
    code_folders: list[Path],
    *,
    wait: bool = False,
    **more: Any,
) -> int:
    """Launch a job, say what there is now, and follow it where that is wanted; the exit code.

    more: of the arguments of hybridjob.launch.launch.
    """
    kind = choose_executor(asked)
    console = Console()
    submitted = launch(job, kind, code_folders, **more)
    from hybridjob.jobfolder import JobFolder  # noqa: PLC0415 - a dry run needs none of it

    folder = JobFolder(job.run_path / submitted.job_id)
    layout = job.layout
    console.print(
        f"job {submitted.job_id}: 1 master, {counted(layout.num_servers, 'server')}, "
        f"{counted(layout.num_trainers, 'trainer')}\nrun folder: {folder.path}",
        highlight=False,
        soft_wrap=True,
    )
    if kind == "slurm" and not wait:
        console.print(
            f"how it does: hybridjob status {submitted.job_id}   "
            f"end it: hybridjob cancel {submitted.job_id}",
            highlight=False,
            soft_wrap=True,
        )
        return 0
    return _follow(submitted, folder, console, ends_with_us=kind == "local")


def _follow(submitted: Any, folder: Any, console: Console, *, ends_with_us: bool) -> int:
    from hybridjob.follow import follow  # noqa: PLC0415 - a dry run needs none of it

    def stop(_number: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        return 0 if follow(submitted, folder, console, Console(stderr=True)) else 1
    except KeyboardInterrupt:
        if ends_with_us:
            submitted.cancel()
            console.print(f"cancelled: all tasks of {submitted.job_id} are ended")
        else:
            console.print(
                f"job {submitted.job_id} goes on without us; "
                f"hybridjob cancel {submitted.job_id} ends it"
            )
        return _DETACHED


def _give_up(error: HybridjobError) -> NoReturn:
    sys.stderr.write(f"hybridjob: {error}\n")
    raise SystemExit(2 if isinstance(error, ConfigError | RunError) else 1)


def main() -> None:
    """Run the console script."""
    # pyarrow and more: not for `submit`
    from hybridjob import (  # noqa: PLC0415
        checkpoint_cli,
        doctor_cli,
        prepare_cli,
        report_cli,
        runs_cli,
    )

    runs_cli.register(app)
    app.add_typer(checkpoint_cli.app, name="checkpoint")
    app.command("report")(report_cli.report)
    app.command("doctor")(doctor_cli.doctor)
    app.command("prepare")(prepare_cli.prepare)
    try:
        app()
    except HybridjobError as error:
        _give_up(error)


def submit_main() -> None:
    """Run `python submit.py`, the short way to `hybridjob submit`."""
    short = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    short.command()(submit)
    short()
