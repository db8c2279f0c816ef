"""`hybridjob submit --sweep`: several jobs from one job file, at most so many at once."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from hybridjob.errors import ConfigError, LaunchError
from hybridjob.jobfile import load_job
from hybridjob.jobfolder import JobFolder, read_json
from hybridjob.launch import choose_executor, launch, script_of
from hybridjob.runs.columns import lay_out
from hybridjob.runs.sweep import name_of_point, points_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hybridjob.config import Job
    from hybridjob.launch import ExecutorName
    from hybridjob.runs.sweep import Point

_POLL_S = 0.5
_INTERRUPTED = 130


def submit_sweep(
    job_file: Path,
    overrides: Sequence[str],
    sweeps: Sequence[str],
    *,
    at_once: int | None,
    asked: ExecutorName | None,
    code_folders: Sequence[Path],
    dry_run: bool,
) -> int:
    """Submit a job for each combination of values; all are checked before the first.

    On Slurm a job waits for the end, however it be, of the one that is at_once places before it.
    Locally they run from here, one at a time unless at_once says more. Returns the exit code.
    """
    name = load_job(job_file, overrides).name
    points = points_of(sweeps)
    jobs = []
    for point in points:
        own = [*overrides, *point.overrides, f"name={json.dumps(name_of_point(name, point))}"]
        jobs.append(load_job(job_file, own))
    if at_once is not None and at_once < 1:
        raise ConfigError(f"--at-once is {at_once}, but must be at least 1")
    if dry_run:
        rows = [_row(str(number + 1), job, point) for number, (job, point) in _pairs(jobs, points)]
        _print_table(points, rows, "job")
        typer.echo(
            f"\n# The script of the first:\n{script_of(jobs[0], asked or 'slurm', code_folders)}"
        )
        return 0
    if choose_executor(asked) == "local":
        return _LocalSweep(name, jobs, points, code_folders).run(at_once or 1)
    return _submit_to_slurm(name, jobs, points, at_once or len(jobs), code_folders)


def _submit_to_slurm(
    name: str,
    jobs: Sequence[Job],
    points: Sequence[Point],
    at_once: int,
    code_folders: Sequence[Path],
) -> int:
    ids: list[str] = []
    rows = []
    problem = None
    for number, (job, point) in _pairs(jobs, points):
        after = ids[number - at_once] if number >= at_once else None
        try:
            submitted = launch(
                job, "slurm", code_folders, after=after, sweep=name, sweep_values=point.values
            )
        except LaunchError as error:
            problem = error
            break
        ids.append(submitted.job_id)
        rows.append([*_row(submitted.job_id, job, point), after or "-"])
    if rows:
        _print_table(points, rows, "id", "after")
        typer.echo(f"compare them: hybridjob ls --sweep {name}")
    if problem is not None:
        raise LaunchError(
            f"{len(ids)} of {len(jobs)} jobs are submitted, the next is not: {problem}"
        )
    return 0


class _LocalSweep:
    """Jobs of a sweep that run as processes of this machine, and end with this one."""

    def __init__(
        self,
        name: str,
        jobs: Sequence[Job],
        points: Sequence[Point],
        code_folders: Sequence[Path],
    ) -> None:
        self._name, self._code_folders = name, code_folders
        self._waiting = list(zip(jobs, points, strict=True))
        self._running: dict[str, tuple[Any, Job]] = {}
        self._failed = 0

    def run(self, at_once: int) -> int:
        """Run all jobs, some at once; Ctrl-C cancels those that run."""

        def stop(_number: int, _frame: object) -> NoReturn:
            raise KeyboardInterrupt

        signal.signal(signal.SIGTERM, stop)
        try:
            while self._waiting or self._running:
                while self._waiting and len(self._running) < at_once:
                    self._begin()
                for job_id in [one for one, (job, _) in self._running.items() if job.done()]:
                    self._end(job_id)
                time.sleep(_POLL_S)
        except KeyboardInterrupt:
            for job_id, (submitted, _) in self._running.items():
                submitted.cancel()
                typer.echo(f"cancelled: job {job_id}")
            typer.echo(f"{len(self._waiting)} jobs were not begun")
            return _INTERRUPTED
        typer.echo(f"compare them: hybridjob ls --sweep {self._name}")
        return 1 if self._failed else 0

    def _begin(self) -> None:
        job, point = self._waiting.pop(0)
        submitted = launch(
            job, "local", self._code_folders, sweep=self._name, sweep_values=point.values
        )
        self._running[submitted.job_id] = (submitted, job)
        typer.echo(f"job {submitted.job_id} begins: {job.name}")

    def _end(self, job_id: str) -> None:
        _, job = self._running.pop(job_id)
        summary = read_json(JobFolder(job.run_path / job_id).summary) or {}
        if summary.get("state") == "completed":
            test = "".join(f", test {key} {value:.4f}" for key, value in summary["test"].items())
            typer.echo(f"job {job_id} completed: step {summary['final_step']:,}{test}")
            return
        self._failed += 1
        cause = summary.get("cause", f"see hybridjob status {job_id}")
        typer.echo(f"job {job_id} failed: {cause}")


def _pairs(jobs: Sequence[Job], points: Sequence[Point]) -> list[tuple[int, tuple[Job, Point]]]:
    return list(enumerate(zip(jobs, points, strict=True)))


def _row(first: str, job: Job, point: Point) -> list[str]:
    return [first, job.name, *(str(value) for value in point.values.values())]


def _print_table(points: Sequence[Point], rows: list[list[str]], first: str, *more: str) -> None:
    keys = [key.rpartition(".")[2] for key in points[0].values]
    for line in lay_out([[first, "name", *keys, *more], *rows], None, flexible=1, right=()):
        typer.echo(line)
