"""Repair a het job that Slurm has requeued in part only, from the login side or from within.

When a component's only node fails, Slurm requeues that component and those before it, and leaves
the others as they are. The leader then waits for ever for a sibling that has ended.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from slurm.command import run_command
from slurm.component_states import TIMEOUT_S, ask_component_states
from slurm.environment import scrubbed
from slurm.errors import CommandError
from slurm.state import JobState, parse_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurm.query import Runner


class Repair(Enum):
    """What a job needs."""

    NOTHING = "nothing to do"
    REQUEUE = "requeue"


@dataclass(frozen=True, kw_only=True)
class Healing:
    """What `heal` saw and did, said in one line.

    repair: what the job needed. text: for a person.
    """

    repair: Repair
    text: str


def diagnose(states: Mapping[int, JobState], num_components: int | None = None) -> Repair:
    """Choose the repair from the states of a job's components.

    num_components: how many the job has, if known: one that Slurm has forgotten is in no list.
    """
    if states.get(0) is not JobState.PENDING:
        return Repair.NOTHING
    missing = num_components is not None and len(states) < num_components
    ended = any(state.is_final for index, state in states.items() if index > 0)
    return Repair.REQUEUE if missing or ended else Repair.NOTHING


def heal(job_id: str, *, num_components: int | None = None, run: Runner = run_command) -> Healing:
    """Look at a job by its leader's id, and requeue it if it waits for what will not come.

    Raises CommandError where Slurm does not answer.
    """
    states = ask_component_states(job_id, run=run)
    seen = f"job {job_id}: {describe_states(states)}"
    repair = diagnose(states, num_components)
    if repair is Repair.NOTHING:
        return Healing(repair=repair, text=f"{seen}; nothing to do")
    said = ""
    try:
        run(["scontrol", "requeue", job_id], timeout_s=TIMEOUT_S, env=scrubbed(os.environ))
    except CommandError as error:
        # Slurm says "Job is pending", with code 1, and frees the job all the same.
        if "pending" not in str(error):
            said = f" ({error})"
    return Healing(
        repair=repair,
        text=f"{seen}; the leader waits for a component that has ended, requeued it{said}",
    )


def left_behind(text: str, restarts: int) -> list[int]:
    """Find the components that Slurm has not requeued with the leader.

    text: squeue's lines ``OFFSET STATE RESTARTS``. restarts: the leader's in the life that ends.
    """
    rows = [line.split() for line in text.splitlines()]
    counts = {int(offset): int(count) for offset, _, count in rows}
    states = {int(offset): parse_state(state) for offset, state, _ in rows}
    if counts.get(0, 0) <= restarts:
        return []
    return [
        index
        for index, state in sorted(states.items())
        if index > 0 and (state is JobState.RUNNING or state.is_final)
    ]


def bring_along(leader: str, restarts: int, *, run: Runner = run_command) -> list[int]:
    """Requeue the components that a requeue by Slurm has left behind; return their indices.

    For the batch script that Slurm is ending: where its node lives, nobody else need heal the job.
    Raises CommandError where Slurm does not answer.
    """
    env = scrubbed(os.environ)
    columns = "HetJobOffset:12,State:20,RestartCnt:12"
    argv = ["squeue", "--noheader", "--states=all", f"--jobs={leader}", "-O", columns]
    found = left_behind(run(argv, timeout_s=TIMEOUT_S, env=env).stdout, restarts)
    if found:
        # It says, with code 1, that the leader waits already; the others are requeued all the same.
        with suppress(CommandError):
            run(["scontrol", "requeue", leader], timeout_s=TIMEOUT_S, env=env)
    return found


def describe_states(states: Mapping[int, JobState]) -> str:
    """Write the states of all components in one line."""
    if not states:
        return "unknown to Slurm"
    return ", ".join(f"component {index} {states[index].value}" for index in sorted(states))
