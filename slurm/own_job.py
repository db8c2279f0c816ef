"""The job that this process is the batch script of, as Slurm's controller sees it."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from slurm.command import run_command
from slurm.component_states import ask_component_states, is_preempted, seconds_left
from slurm.errors import CommandError
from slurm.heal import bring_along
from slurm.requeue import held_back, requeue
from slurm.say import say
from slurm.state import JobState
from slurm.steps import clear_steps, list_steps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurm.query import Runner

_GUARD_DEADLINE_S = 60.0
_STATE_DEADLINE_S = 120.0
_STATE_PAUSE_S = 5.0
_SOON_S = 180  # two minutes of warning by default, which Slurm may send one minute early


class OwnJob:
    """Asks and tells the controller; what fails is said in one line, and never raised.

    environment: that of the batch script. leader: the job's id, its first component's.
    """

    def __init__(self, environment: Mapping[str, str], *, run: Runner = run_command) -> None:
        self._run = run
        self._components = component_ids(environment)
        self._restarts = int(environment.get("SLURM_RESTART_COUNT", "0"))
        self._kept: frozenset[str] = frozenset()
        self.leader = self._components[0]

    def end_left_over_steps(self, *, first: bool) -> bool:
        """End steps of an earlier life or attempt: srun could not create its own beside them.

        Returns whether none is left, as far as Slurm tells. Component 0 may have steps that the
        script's own setup has started: they are kept.
        """

        def leftovers() -> list[str]:
            ids = self._components[1:] if first else self._components
            return [step for step in list_steps(ids, run=self._run) if step not in self._kept]

        try:
            if first:
                self._kept = frozenset(list_steps(self._components[:1], run=self._run))
                if len(self._components) == 1:
                    return True
            found, left = clear_steps(leftovers, deadline_s=_GUARD_DEADLINE_S, run=self._run)
        except CommandError as error:
            say(f"cannot look for steps of an earlier life: {error}")
            return True
        if left:
            say(f"still there after {_GUARD_DEADLINE_S:g} s: {' '.join(left)}")
        elif found:
            say(f"ended what an earlier life or attempt had left: {' '.join(found)}")
        return not left

    def states(self, *, patient: bool = True) -> dict[int, JobState] | None:
        """Ask until Slurm answers, or once if not patient; None if it does not."""
        deadline = time.monotonic() + _STATE_DEADLINE_S
        while True:
            try:
                return ask_component_states(self.leader, run=self._run)
            except CommandError as error:
                if not patient:
                    return None
                if "not on the PATH" in str(error) or time.monotonic() > deadline:
                    say(f"cannot ask for the job's state: {error}")
                    return None
            time.sleep(_STATE_PAUSE_S)

    def is_preempted(self) -> bool:
        """Tell whether Slurm is about to take the nodes away; taken for granted if it is silent."""
        try:
            return is_preempted(self.leader, run=self._run)
        except CommandError as error:
            say(f"cannot ask whether the job is preempted, so it is taken to be: {error}")
            return True

    def ends_soon(self) -> bool:
        """Tell whether the time limit is near: its warning has come, or will before a step works.

        Such a warning ends tasks that have just been started, and it comes once.
        """
        try:
            left = seconds_left(self.leader, run=self._run)
        except CommandError as error:
            say(f"cannot ask for the time that is left: {error}")
            return False
        return left is not None and left < _SOON_S

    def requeue(self) -> str | None:
        """Send the job back to the queue. Returns None, or why it does not go there."""

        def is_running() -> bool:
            states = self.states()
            return states is None or states.get(0) is JobState.RUNNING

        return requeue(self.leader, run=self._run, is_running=is_running)

    def bring_along(self) -> None:
        """See to it that Slurm, if it has requeued the leader, has requeued all components."""
        if len(self._components) == 1:
            return
        try:
            with held_back(signal.SIGTERM):
                found = bring_along(self.leader, self._restarts, run=self._run)
        except CommandError as error:
            say(f"cannot ask whether all components are requeued: {error}")
            return
        if found:
            numbers = ", ".join(str(index) for index in found)
            say(f"Slurm has requeued this job without component {numbers}: requeued it, too")


def component_ids(environment: Mapping[str, str]) -> list[str]:
    """Give the job ids of all components; component 0's is the job's own."""
    size = int(environment.get("SLURM_HET_SIZE", "1"))
    own = environment["SLURM_JOB_ID"]
    others = [environment.get(f"SLURM_JOB_ID_HET_GROUP_{k}") for k in range(1, size)]
    return [own, *(one for one in others if one is not None)]
