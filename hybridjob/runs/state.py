"""One word for what became of a run, from what Slurm, or this machine, and the folder say. Pure."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from slurm.state import JobState

if TYPE_CHECKING:
    from hybridjob.runs.facts import Brief


class RunState(str, Enum):
    """What became of a run."""

    PENDING = "pending"
    REQUEUED = "requeued"
    """It waits for another life."""
    STARTING = "starting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETING = "completing"
    """Nothing more will come of it, but it still holds nodes."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    LOST = "lost"
    """It has ended, and nothing is known of how: a node or the local controller was lost."""
    UNKNOWN = "unknown"
    """Nobody could be asked whether it still runs."""

    @property
    def is_over(self) -> bool:
        """Whether it will not run again by itself."""
        return self in _OVER


_OVER = frozenset(
    {
        RunState.COMPLETED,
        RunState.FAILED,
        RunState.CANCELLED,
        RunState.TIMEOUT,
        RunState.LOST,
    }
)
_WORDS = {
    JobState.PENDING: RunState.PENDING,
    JobState.REQUEUED: RunState.REQUEUED,
    JobState.CONFIGURING: RunState.STARTING,
    JobState.RUNNING: RunState.RUNNING,
    JobState.SUSPENDED: RunState.SUSPENDED,
    JobState.COMPLETING: RunState.COMPLETING,
    JobState.COMPLETED: RunState.COMPLETED,
    JobState.FAILED: RunState.FAILED,
    JobState.OUT_OF_MEMORY: RunState.FAILED,
    JobState.CANCELLED: RunState.CANCELLED,
    JobState.TIMEOUT: RunState.TIMEOUT,
    JobState.DEADLINE: RunState.TIMEOUT,
    JobState.NODE_FAIL: RunState.LOST,
    JobState.BOOT_FAIL: RunState.LOST,
    JobState.PREEMPTED: RunState.LOST,
}


def decide_state(brief: Brief, job_state: JobState, started: float | None = None) -> RunState:
    """Choose the word. job_state: Slurm's for the whole job, or the local controller's.

    started: when Slurm started the job's leader; a folder without a sign of life since then is of
    a life before.

    A run that has written that it is complete is so, whatever is lost after that. What its folder
    says counts where Slurm has forgotten the job, or does not answer.
    """
    said = None if brief.summary is None else brief.summary.get("state")
    if job_state in (JobState.FORGOTTEN, JobState.UNKNOWN):
        return _from_folder(brief, forgotten=job_state is JobState.FORGOTTEN)
    word = _WORDS[job_state]
    if said == "completed" and word not in (RunState.RUNNING, RunState.COMPLETING):
        return RunState.COMPLETED
    if word is RunState.PENDING and brief.num_lives:
        return RunState.REQUEUED
    if word is RunState.RUNNING and brief.last_sign < (started or 1.0):
        return RunState.STARTING
    if word is RunState.LOST and said == "failed":
        return RunState.FAILED
    return word


def _from_folder(brief: Brief, *, forgotten: bool) -> RunState:
    said = None if brief.summary is None else brief.summary.get("state")
    if said == "completed" or (forgotten and brief.exit_code == 0):
        return RunState.COMPLETED
    if brief.cancelled == "seen" or (brief.cancelled and forgotten):
        return RunState.CANCELLED
    if said == "failed" or (forgotten and brief.exit_code is not None):
        return RunState.FAILED
    return RunState.LOST if forgotten else RunState.UNKNOWN
