"""What a person sees of a run: a live bar on a terminal, one line an event elsewhere.

It reads the job's folder only, so it serves a job on this machine and one on a cluster alike.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from typing import IO, TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hybridjob.failures import Failure, read_failure
from hybridjob.jobfolder import read_json
from hybridjob.logs import without_date
from hybridjob.runs.phrases import duration
from hybridjob.runs.served import hint_of_imbalance, served_shares, waited_most_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hybridjob.jobfolder import JobFolder

_POLL_S = 0.2
_SETTLE_S = 60.0
_PHASES_SHOWN = 4


class Followed(Protocol):
    """The part of a submitit job that following needs."""

    def done(self) -> bool:
        """Tell whether the job has ended."""

    @property
    def state(self) -> str:
        """Slurm's word for the job's state."""

    def exception(self) -> Exception | None:
        """Give what the job raised."""


def follow(job: Followed, folder: JobFolder, console: Console, errors: Console) -> bool:
    """Show a run until it ends. Returns whether it completed."""
    lines = FollowedFile(folder.metrics)
    events, failures = FollowedLogs(folder), FollowedFailures(folder)
    with _bar(console) if console.is_terminal else contextlib.nullcontext() as bar:
        ended = False
        while not ended:
            ended = job.done()  # asked first: what is read after it is all there is
            if bar is not None:
                _advance(bar, job, [json.loads(line) for line in lines.new_lines()])
            shown = itertools.chain(() if bar else events.new_lines(), failures.new_lines())
            for line in shown:
                console.print(line, markup=False, highlight=False, soft_wrap=True)
            if not ended:
                time.sleep(_POLL_S)
    return show_end(job, folder, console, errors)


def show_end(job: Followed, folder: JobFolder, console: Console, errors: Console) -> bool:
    """Show the result's table, or the first cause of the failure. Returns whether it completed."""
    summary = read_json(folder.summary)
    if summary is not None and summary["state"] == "completed":
        console.print(summary_table(summary))
        if hint := hint_of_imbalance(summary):
            console.print(hint, markup=False, soft_wrap=True, highlight=False)
        console.print(f"run folder: {folder.path}", soft_wrap=True, highlight=False)
        return True
    failure = _first_cause(folder)
    cause = str(failure or "")
    if failure is None or failure.consequence:  # what was lost could not say why
        cause = "; ".join(filter(None, (_slurms_word(job), cause)))
    errors.print(f"failed: {cause}", style="bold red", markup=False, soft_wrap=True)
    if failure and failure.detail:
        errors.print("\n".join(failure.detail.splitlines()[-6:]), markup=False, soft_wrap=True)
    errors.print(f"logs: {folder.path / 'logs'}", soft_wrap=True, highlight=False)
    return False


def summary_table(summary: dict[str, Any]) -> Table:
    """Lay out summary.json for a person."""
    table = Table(title=f"{summary['name']}: completed", show_header=False, title_justify="left")
    rows = {
        "steps": f"{summary['final_step']:,}",
        "final loss": _number(summary["final_loss"]),
        **{f"test {name}": _number(value) for name, value in summary["test"].items()},
        "samples": f"{summary['samples']:,}",
        "samples/s": f"{summary['samples_per_s']:,.0f}",
        "wall time": duration(summary["wall_s"]),
        "servers, trainers": f"{summary['servers']}, {summary['trainers']}",
        "bytes in tables": f"{summary['table_bytes']:,}",
        **_where_time_went(summary.get("seconds", {})),
    }
    if len(summary.get("ids_served", [])) > 1:
        rows["ids a server"] = served_shares(summary["ids_served"])
        rows["waited most for"] = waited_most_for(summary.get("waits", {}))
    if summary["skipped_rows"]:
        rows["rows skipped"] = f"{summary['skipped_rows']:,}"
    rows["state digest"] = summary["state_digest"][:16]
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _where_time_went(seconds: dict[str, float]) -> dict[str, str]:
    """Name the phases that took most, of a trainer and of a server."""
    found = {}
    for role, server in (("a trainer's time", False), ("a server's time", True)):
        own = {
            name.removeprefix("server "): value
            for name, value in seconds.items()
            if name.startswith("server ") == server
        }
        if any(own.values()):
            longest = sorted(own.items(), key=lambda item: -item[1])[:_PHASES_SHOWN]
            found[role] = ", ".join(f"{name} {value:.1f} s" for name, value in longest)
    return found


class FollowedFile:
    """Reads the lines that are added to a file which may not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None
        self._rest = ""

    def new_lines(self) -> Iterator[str]:
        """Give the complete lines that have been added since the last call."""
        if self._file is None:
            try:
                self._file = self._path.open(encoding="utf-8", errors="replace")
            except FileNotFoundError:
                return
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        yield from lines


class FollowedLogs:
    """Reads the master's log of every generation as it grows, and the cause where one ends."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._files: dict[Path, FollowedFile] = {}

    def new_lines(self) -> Iterator[str]:
        """Give the lines that have been added since the last call."""
        for path in _by_age(self._folder.path / "logs", "rank-000-*.log"):
            if path not in self._files:
                self._files[path] = FollowedFile(path)
            yield from map(without_date, self._files[path].new_lines())


class FollowedFailures:
    """Tells of each generation that has failed, once."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._told: set[Path] = set()

    def new_lines(self) -> Iterator[str]:
        """Give a line for each failure since the last call."""
        for path in _by_age(self._folder.path / "failures", "gen-*.json"):
            failure = None if path in self._told else read_failure(path)
            if failure is not None:
                self._told.add(path)
                if not failure.again:
                    continue  # the run ends with it, and its end tells it
                yield f"generation {path.stem.removeprefix('gen-')} failed: {failure}"


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[numbers]}"),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
    )


def _advance(bar: Progress, job: Followed, lines: list[dict[str, Any]]) -> None:
    """Show the newest numbers; before the first, what the job is waiting for."""
    if not bar.task_ids:
        bar.add_task("", total=None, numbers="")
    (task,) = bar.task_ids
    steps = [line for line in lines if "loss" in line]
    if steps:
        step, total = steps[-1]["step"], steps[-1]["of_steps"]
        speed = f"{steps[-1]['samples_per_s']:,.0f}/s"
        numbers = f"{step:,}/{total:,} loss {steps[-1]['loss']:.4f} {speed}"
        bar.update(task, description="step", completed=step, total=total, numbers=numbers)
    elif bar.tasks[0].total is None:
        waiting = "starting" if job.state == "RUNNING" else job.state.lower()
        bar.update(task, description=waiting)


def _slurms_word(job: Followed) -> str:
    """Say what Slurm, or the local executor, knows of a job whose ranks could say nothing."""
    deadline = time.monotonic() + _SETTLE_S
    while job.state == "COMPLETING" and time.monotonic() < deadline:
        time.sleep(1)
    if job.state.startswith("CANCELLED"):
        return "the job was cancelled"
    lines = str(job.exception() or "").splitlines()
    reason = next((line for line in lines if line.strip("- ") and not line.endswith(":")), "")
    return f"the job ended as {job.state}" + (f": {reason}" if reason else "")


def _first_cause(folder: JobFolder) -> Failure | None:
    """Give the cause of the newest generation that failed."""
    kept = [read_failure(path) for path in _by_age(folder.path / "failures", "gen-*.json")]
    return kept[-1] if kept else None


def _by_age(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
