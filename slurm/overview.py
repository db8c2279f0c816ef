"""What Slurm knows of the components of jobs: one question to squeue, one to sacct for the rest."""

from __future__ import annotations

import os
import shlex
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slurm.command import run_command
from slurm.duration import parse_duration
from slurm.environment import scrubbed
from slurm.errors import CommandError
from slurm.ids import parse_id
from slurm.state import JobState, parse_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from slurm.command import CommandResult
    from slurm.query import Runner

_SQUEUE = ("%i", "%T", "%S", "%l", "%M", "%P", "%N", "%r")
_SACCT = ("JobID", "State", "Start", "Timelimit", "Elapsed", "Partition", "NodeList", "ExitCode")
_NO_NODES = frozenset({"", "(null)", "None assigned"})


@dataclass(frozen=True, kw_only=True)
class ComponentView:
    """One component. Times in seconds since the epoch, durations in seconds, None if not known.

    start: when it began, or for one that waits, when Slurm expects it to. limit_s: None also for
    no limit. reason: squeue's word for why it waits or ended, or the exit code that sacct knows.
    """

    state: JobState
    partition: str = ""
    nodes: str = ""
    reason: str = ""
    start: float | None = None
    limit_s: int | None = None
    elapsed_s: int | None = None


@dataclass(frozen=True)
class Overview:
    """What Slurm said. jobs: leader's id -> component -> view, without those it does not know.

    problems: why squeue gave no answer; empty if it did, so that what it lacks is forgotten.
    """

    jobs: Mapping[str, Mapping[int, ComponentView]] = field(default_factory=dict)
    problems: Sequence[str] = ()


def within(total_s: float, run: Runner = run_command) -> Runner:
    """Give what runs commands with one deadline for all of them together.

    A command that begins after it is not run: CommandError.
    """
    end = time.monotonic() + total_s

    def run_in_time(
        argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None
    ) -> CommandResult:
        left = end - time.monotonic()
        if left <= 0:
            raise CommandError(f"{argv[0]} was not asked: Slurm has used up {total_s:g} s already")
        return run(argv, timeout_s=min(timeout_s, max(0.1, round(left, 1))), env=env)

    return run_in_time


def look_at_jobs(job_ids: Iterable[str], *, run: Runner) -> Overview:
    """Ask Slurm for all components of jobs by their leaders' ids. Nothing is raised."""
    wanted = list(dict.fromkeys(job_ids))
    if not wanted:
        return Overview()
    env = scrubbed(os.environ)
    ids = ",".join(wanted)
    squeue = ["squeue", "--noheader", "--states=all", f"--jobs={ids}", "-o", "|".join(_SQUEUE)]
    jobs, problems = _ask(squeue, _word_of_squeue, run, env)
    unknown = ",".join(job_id for job_id in wanted if job_id not in jobs)
    if unknown:
        sacct = ["sacct", "-n", "-P", "-X", "-o", ",".join(_SACCT), "-j", unknown]
        more, _ = _ask(sacct, _word_of_sacct, run, env)  # many sites have no accounting
        jobs |= more
    return Overview(jobs, problems)


def _ask(
    argv: list[str],
    reason_of: Callable[[str], str],
    run: Runner,
    env: Mapping[str, str],
) -> tuple[dict[str, dict[int, ComponentView]], list[str]]:
    try:
        text = run(argv, timeout_s=60, env=env).stdout
    except CommandError as error:
        said = " ".join(str(error).replace(shlex.join(argv), argv[0]).split())
        return {}, [] if error.is_unknown_job else [said]
    jobs: dict[str, dict[int, ComponentView]] = defaultdict(dict)
    for line in text.splitlines():
        job_id, *cells = line.strip().split("|")
        component = parse_id(job_id)
        if component is not None and len(cells) == len(_SQUEUE) - 1:
            leader, index = component
            jobs[leader][index] = _view(cells, reason_of)
    return dict(jobs), []


def _view(cells: list[str], reason_of: Callable[[str], str]) -> ComponentView:
    state, start, limit, elapsed, partition, nodes, reason = cells
    return ComponentView(
        state=parse_state(state),
        start=_time(start),
        limit_s=_duration(limit),
        elapsed_s=_duration(elapsed),
        partition=partition,
        nodes="" if nodes in _NO_NODES else nodes,
        reason=reason_of(reason),
    )


def _word_of_squeue(reason: str) -> str:
    return "" if reason == "None" else reason


def _word_of_sacct(exit_code: str) -> str:
    return "" if exit_code in ("", "0:0") else f"exit code {exit_code}"


def _time(text: str) -> float | None:
    """Read Slurm's local time, `2026-12-01T03:44:25`; None for N/A and Unknown."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def _duration(text: str) -> int | None:
    try:
        return parse_duration(text)
    except ValueError:  # INVALID, NOT_SET, Partition_Limit
        return None
