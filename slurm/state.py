"""The state of a job: one table from Slurm's words, and one rule for several components."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class JobState(str, Enum):
    """What became of a job. The values are Slurm's own words, but for the last two."""

    PENDING = "PENDING"
    CONFIGURING = "CONFIGURING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    REQUEUED = "REQUEUED"
    COMPLETING = "COMPLETING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    DEADLINE = "DEADLINE"
    PREEMPTED = "PREEMPTED"
    NODE_FAIL = "NODE_FAIL"
    BOOT_FAIL = "BOOT_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    FORGOTTEN = "FORGOTTEN"  # it ended longer ago than Slurm remembers
    UNKNOWN = "UNKNOWN"  # no command gave an answer

    @property
    def is_final(self) -> bool:
        """Whether the job will never run again by itself."""
        return self in _FINAL


_FINAL = frozenset(
    {
        JobState.COMPLETED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.TIMEOUT,
        JobState.DEADLINE,
        JobState.PREEMPTED,
        JobState.NODE_FAIL,
        JobState.BOOT_FAIL,
        JobState.OUT_OF_MEMORY,
        JobState.FORGOTTEN,
    }
)
# Words that mean, to who waits for a job, the same as another word.
_ALIASES: Mapping[str, JobState] = {
    "POWER_UP_NODE": JobState.CONFIGURING,
    "REQUEUE_FED": JobState.REQUEUED,
    "REQUEUE_HOLD": JobState.REQUEUED,
    "RESIZING": JobState.RUNNING,
    "RESV_DEL_HOLD": JobState.PENDING,
    "REVOKED": JobState.CANCELLED,
    "SIGNALING": JobState.RUNNING,
    "SPECIAL_EXIT": JobState.REQUEUED,
    "STAGE_OUT": JobState.COMPLETING,
    "STOPPED": JobState.SUSPENDED,
    "LAUNCH_FAILED": JobState.BOOT_FAIL,
    "RECONFIG_FAIL": JobState.BOOT_FAIL,
}


def parse_state(text: str) -> JobState:
    """Read one of Slurm's words: ``RUNNING``, ``CANCELLED by 0``, ``FAILED+``.

    A word that this table lacks is UNKNOWN.
    """
    words = text.split()
    word = words[0].rstrip("+").upper() if words else ""
    if word in _ALIASES:
        return _ALIASES[word]
    return JobState.__members__.get(word, JobState.UNKNOWN)


def fold_states(components: Mapping[int, JobState]) -> JobState:
    """Say one state for a job whose components (index to state) differ.

    The leader, component 0, decides: its script is the job. So a job whose leader waits is
    PENDING, whatever has become of the others. Where the leader is done and another is not, the
    job is COMPLETING: nothing more will come of it, but it still holds nodes. Where all are done,
    the first that did not complete speaks.
    """
    states = [components[index] for index in sorted(components)]
    leader = states[0]
    if not leader.is_final:
        return leader
    if not all(state.is_final for state in states):
        return JobState.COMPLETING
    return next((state for state in states if state is not JobState.COMPLETED), leader)
