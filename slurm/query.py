"""Ask Slurm what became of jobs: squeue, then sacct, then scontrol."""

from __future__ import annotations

import logging
import os
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from slurm.command import CommandResult, run_command
from slurm.environment import scrubbed
from slurm.errors import CommandError
from slurm.ids import parse_id
from slurm.state import JobState, fold_states, parse_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_LOGGER = logging.getLogger(__name__)
_TIMEOUT_S = 30.0
_SCONTROL_ID = re.compile(r"JobId=(\d+)(?:.*? HetJobId=(\d+) HetJobOffset=(\d+))?")
_SCONTROL_STATE = re.compile(r"\s+JobState=(\S+)")


class Runner(Protocol):
    """What runs a command; a test gives its own."""

    def __call__(
        self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None
    ) -> CommandResult:
        """Run a program as slurm.command.run_command does."""


def parse_table(text: str) -> dict[str, JobState]:
    """Read lines ``ID|STATE`` of squeue or sacct; ids are ``67``, ``67+0`` or ``67+1``.

    Returns the state of each whole job by its leader's id. Steps (``67+0.batch``) are passed over.
    """
    components: dict[str, dict[int, JobState]] = defaultdict(dict)
    for line in text.splitlines():
        job_id, _, state = line.strip().partition("|")
        if (component := parse_id(job_id)) is not None:
            leader, index = component
            components[leader][index] = parse_state(state)
    return {job_id: fold_states(states) for job_id, states in components.items()}


def parse_scontrol(text: str) -> dict[str, JobState]:
    """Read the records of ``scontrol show job``; the state of each whole job by its leader's id."""
    components: dict[str, dict[int, JobState]] = defaultdict(dict)
    leader, index = "", 0
    for line in text.splitlines():
        if match := _SCONTROL_ID.match(line):
            leader, index = match[2] or match[1], int(match[3] or 0)
        elif leader and (match := _SCONTROL_STATE.match(line)):
            components[leader][index] = parse_state(match[1])
    return {job_id: fold_states(states) for job_id, states in components.items()}


def query_states(job_ids: Iterable[str], *, run: Runner = run_command) -> dict[str, JobState]:
    """Ask for the states of jobs, by their leaders' ids. Every id gets an answer.

    A command that is missing or fails is passed over; the next one is asked for what is still
    open. A job that the controller answers not to know is FORGOTTEN; one about which no command
    answered is UNKNOWN, and then one line of warning is logged, once in this process.
    """
    wanted = list(dict.fromkeys(job_ids))
    if not wanted:
        return {}
    query = _Query(run)
    states: dict[str, JobState] = {}
    for source in (query.squeue, query.sacct, query.scontrol):
        still_open = [job_id for job_id in wanted if job_id not in states]
        if still_open:
            states.update(source(still_open))
    if query.failures and any(job_id not in states for job_id in wanted):
        _warn_once(query.failures)
    return {job_id: states.get(job_id, JobState.UNKNOWN) for job_id in wanted}


class _Query:
    """One round of questions, and what failed in it."""

    def __init__(self, run: Runner) -> None:
        self._run = run
        self._env = scrubbed(os.environ)
        self.failures: list[str] = []

    def squeue(self, job_ids: Sequence[str]) -> dict[str, JobState]:
        ids = ",".join(job_ids)
        text = self._ask(["squeue", "--noheader", "--states=all", f"--jobs={ids}", "-o", "%i|%T"])
        return parse_table(text or "")

    def sacct(self, job_ids: Sequence[str]) -> dict[str, JobState]:
        ids = ",".join(job_ids)
        text = self._ask(["sacct", "-n", "-P", "-X", "-o", "JobID,State", "-j", ids])
        return parse_table(text or "")

    def scontrol(self, job_ids: Sequence[str]) -> dict[str, JobState]:
        """Ask for one job at a time: scontrol takes no list."""
        states: dict[str, JobState] = {}
        for job_id in job_ids:
            text = self._ask(["scontrol", "show", "job", job_id])
            if text == "":
                states[job_id] = JobState.FORGOTTEN
            else:
                states.update(parse_scontrol(text or ""))
        return states

    def _ask(self, argv: list[str]) -> str | None:
        """Return what a command prints, "" where it knows no such job, None where it failed."""
        try:
            return self._run(argv, timeout_s=_TIMEOUT_S, env=self._env).stdout
        except CommandError as error:
            if error.is_unknown_job:
                return ""
            self.failures.append(str(error))
            return None


_warned = False


def _warn_once(failures: Sequence[str]) -> None:
    global _warned  # noqa: PLW0603 - a poll comes every few seconds, and one line is enough
    if not _warned:
        _warned = True
        _LOGGER.warning("no Slurm command told a job's state: %s", "; ".join(failures))
