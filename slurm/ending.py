"""What follows when the step of a batch script has ended. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from slurm.state import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

GIVE_UP = 70
"""A task's exit code: starting again would not help (EX_SOFTWARE of sysexits.h)."""
REQUEUE_ME = 75
"""A task's exit code: all is saved, start me again in another life (EX_TEMPFAIL)."""
_TERMINATED = 128 + signal.SIGTERM


class Wish(str, Enum):
    """What a task may write to the file exit_wish before it exits: the last one counts."""

    DONE = "done"
    """All is complete: an accident at the very end, or a step that does not end, takes nothing."""
    GIVE_UP = "give up"
    """Starting again would not help."""
    REQUEUE = "requeue"
    """All is saved and this life is over: the time limit is near."""
    LEAVE = "leave"
    """The task has left on a SIGTERM and cannot tell whether the job ends or only its step."""
    AGAIN = "again"
    """A new step would help: a task is lost, and srun may not know of it."""


_WISHES_BY_CODE = {GIVE_UP: Wish.GIVE_UP, REQUEUE_ME: Wish.REQUEUE}


class Next(Enum):
    """What the batch script does when srun has ended."""

    END = "end"
    REQUEUE = "requeue"
    TRY_AGAIN = "try again"


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a step has ended.

    code: srun's. It is the highest of all tasks, and with --kill-on-bad-exit the others are
    killed: three tasks that exit with 75 within a moment come out as 143, or 137. So a wish wins.
    states: of the job's components by now, None where Slurm did not tell.
    warned: whether the batch process has heard SIGTERM, which Slurm sends when it ends a job.
    preempted: whether Slurm has announced that it takes the nodes away. ends_soon: whether the time
    limit is too near for another step.
    """

    code: int
    wish: Wish | None = None
    states: Mapping[int, JobState] | None = None
    warned: bool = False
    preempted: bool = False
    ends_soon: bool = False
    attempts_left: int = 0

    @property
    def leader_runs(self) -> bool:
        """Whether the job is neither ended, cancelled, timed out nor requeued by Slurm."""
        if self.states is None:
            return not self.warned
        return self.states.get(0) is JobState.RUNNING

    @property
    def all_run(self) -> bool:
        """Whether a step over all components can be created."""
        states = self.states or {}
        return self.leader_runs and all(one is JobState.RUNNING for one in states.values())


def parse_wish(text: str) -> Wish | None:
    """Read the file exit_wish; None for an empty one, or a word that is none of ours."""
    word = text.strip()
    return Wish(word) if word in set(Wish) else None


def decide(ended: Ended) -> tuple[Next, int]:
    """Choose what follows after a step, and the exit code if nothing does."""
    code = ended.code
    wish = ended.wish or _WISHES_BY_CODE.get(code)
    if wish is Wish.DONE:
        return Next.END, 0
    if code == 0 and wish is None:
        # srun also says 0 when it was ended before it knew how its tasks did.
        return Next.END, 0 if ended.leader_runs else _TERMINATED
    if wish is Wish.GIVE_UP:
        return Next.END, GIVE_UP
    code = code or _TERMINATED  # a wish is no success, nor is a step that had to be ended
    if not ended.leader_runs:
        return Next.END, code
    can_try = ended.all_run and ended.attempts_left > 0 and not ended.preempted
    if wish is Wish.REQUEUE or ended.ends_soon or (wish is Wish.LEAVE and not can_try):
        return Next.REQUEUE, REQUEUE_ME
    return (Next.TRY_AGAIN if can_try else Next.END), code
