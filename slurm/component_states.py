"""Ask Slurm for the state of each component of one job."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from slurm.command import run_command
from slurm.duration import parse_duration
from slurm.environment import scrubbed
from slurm.errors import CommandError
from slurm.ids import parse_id
from slurm.state import JobState, parse_state

if TYPE_CHECKING:
    from slurm.query import Runner

TIMEOUT_S = 30.0


def parse_component_states(text: str) -> dict[int, JobState]:
    """Read squeue's lines ``ID|STATE`` of one job, ids ``67`` or ``67+1``; states by component."""
    states = {}
    for line in text.splitlines():
        job_id, _, state = line.strip().partition("|")
        if (component := parse_id(job_id)) is not None:
            states[component[1]] = parse_state(state)
    return states


def ask_component_states(job_id: str, *, run: Runner = run_command) -> dict[int, JobState]:
    """Ask squeue for the components of the job whose leader is job_id.

    A component that Slurm has forgotten is missing. Raises CommandError where squeue is missing
    or the controller does not answer.
    """
    argv = ["squeue", "--noheader", "--states=all", f"--jobs={job_id}", "-o", "%i|%T"]
    try:
        text = run(argv, timeout_s=TIMEOUT_S, env=scrubbed(os.environ)).stdout
    except CommandError as error:
        if error.is_unknown_job:
            return {}
        raise
    return parse_component_states(text)


def seconds_left(job_id: str, *, run: Runner = run_command) -> int | None:
    """Ask for the time until the first component reaches its limit; None if there is none.

    Raises CommandError as ask_component_states does.
    """
    argv = ["squeue", "--noheader", f"--jobs={job_id}", "-o", "%L"]
    found = []
    for word in run(argv, timeout_s=TIMEOUT_S, env=scrubbed(os.environ)).stdout.split():
        with suppress(ValueError):  # NOT_SET, INVALID: it has not begun, or is over
            found.append(parse_duration(word))
    return min((one for one in found if one is not None), default=None)


def is_preempted(job_id: str, *, run: Runner = run_command) -> bool:
    """Tell whether Slurm has warned the job that it takes its nodes away (GraceTime).

    Raises CommandError as ask_component_states does.
    """
    argv = ["squeue", "--noheader", f"--jobs={job_id}", "-O", "PreemptTime:30"]
    times = run(argv, timeout_s=TIMEOUT_S, env=scrubbed(os.environ)).stdout.split()
    return any(time != "N/A" for time in times)
