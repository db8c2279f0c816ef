"""End a run for good: the whole job, all components, and no life after it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from hybridjob.errors import LaunchError, RunError
from hybridjob.runs.facts import note_cancelled, read_brief
from hybridjob.runs.outside import DEADLINE_S, look_at, runner
from hybridjob.runs.state import RunState
from slurm.environment import scrubbed
from slurm.errors import CommandError, LocalJobError
from slurm.local_process import stop_controller

if TYPE_CHECKING:
    from collections.abc import Callable

    from hybridjob.runs.facts import Brief
    from hybridjob.runs.find import Run
    from hybridjob.runs.outside import Seen

_POLL_S = 1.0


def cancel(run: Run, *, timeout_s: float, say: Callable[[str], None]) -> Seen:
    """Cancel a run and wait for its end. Returns how it was seen last.

    say: told what is waited for. Raises RunError if it is over already, LaunchError if Slurm, or
    the local controller, does not do it or it is not over after timeout_s.
    """
    brief = read_brief(run)
    seen = look_at([brief])[run.job_id]
    if seen.state.is_over:
        raise RunError(f"job {run.job_id} of {run.name} is over already: {seen.state.value}")
    if brief.local:
        return _cancel_local(run, brief, seen, timeout_s)
    try:
        runner(max(DEADLINE_S, 20.0))(
            ["scancel", run.job_id], timeout_s=20.0, env=scrubbed(os.environ)
        )
    except CommandError as error:
        raise LaunchError(f"job {run.job_id} is not cancelled: {error}") from error
    note_cancelled(run, seen=False)
    at_work = ": its ranks save and end" if seen.state is RunState.RUNNING else ""
    say(f"cancelling job {run.job_id} ({seen.state.value}){at_work}")
    return _wait(run, timeout_s)


def _cancel_local(run: Run, brief: Brief, seen: Seen, timeout_s: float) -> Seen:
    if seen.state is RunState.UNKNOWN:
        raise LaunchError(f"job {run.job_id} is not cancelled: {seen.problem}")
    try:
        stop_controller(run.job_id, run.folder.path / f"{run.job_id}_state.json", timeout_s)
    except LocalJobError as error:
        raise LaunchError(str(error)) from error
    note_cancelled(run, seen=True)
    return look_at([brief])[run.job_id]


def _wait(run: Run, timeout_s: float) -> Seen:
    deadline = time.monotonic() + timeout_s
    while True:
        seen = look_at([read_brief(run)])[run.job_id]
        if seen.state.is_over:
            note_cancelled(run, seen=True)
            return seen
        if time.monotonic() > deadline:
            raise LaunchError(
                f"job {run.job_id} is still {seen.state.value} {timeout_s:g} s after scancel"
                + (f" ({seen.problem})" if seen.problem else "")
                + f": see hybridjob status {run.job_id}"
            )
        time.sleep(_POLL_S)
