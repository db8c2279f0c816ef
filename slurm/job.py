"""A submitted heterogeneous job, with submitit's interface."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypeVar

from submitit.slurm import slurm as submitit_slurm

from slurm.command import run_command
from slurm.environment import scrubbed
from slurm.errors import CommandError
from slurm.outcome import first_error, wait_for_results
from slurm.query import query_states
from slurm.state import JobState

if TYPE_CHECKING:
    from pathlib import Path

    from submitit.core import utils

R = TypeVar("R", covariant=True)  # noqa: PLC0105 - submitit's own name for it

# How late a file that a rank wrote on another node may be seen here.
_VISIBLE_AFTER_S = 15.0
_VISIBLE_AFTER_FAILURE_S = 2.0
_CANCEL_TIMEOUT_S = 60.0
# A job that ended like this may come back: it is asked about again.
_REQUEUED_BY_SLURM = (JobState.NODE_FAIL, JobState.BOOT_FAIL, JobState.PREEMPTED)


class HetInfoWatcher(submitit_slurm.SlurmInfoWatcher):
    """Asks squeue, sacct and scontrol, for all jobs of this process at once.

    submitit's own asks sacct only, under ids that a het job does not have there.
    """

    def update(self) -> None:
        """Ask for every job that has not ended."""
        job_ids = sorted(self._registered - self._finished)
        if not job_ids:
            return
        self._num_calls += 1
        for job_id, state in query_states(job_ids).items():
            if state is JobState.UNKNOWN and job_id in self._info_dict:
                continue  # no answer is no news
            self._info_dict[job_id] = {"JobID": job_id, "State": state.value}
            if state.is_final and state not in _REQUEUED_BY_SLURM:
                self._finished.add(job_id)
        self._last_status_check = time.time()

    def is_done(self, job_id: str, mode: str = "standard") -> bool:
        """Tell whether the job has ended, by this package's own table of states."""
        return JobState(self.get_state(job_id, mode=mode)).is_final


class HetJob(submitit_slurm.SlurmJob[R]):
    """A job of one or several components. job_id is the leader's; task(k) is global rank k."""

    watcher = HetInfoWatcher(delay_s=30)

    @property
    def state(self) -> str:
        """A JobState's value: Slurm's word, or what the batch script left if Slurm forgot it."""
        # Once all results are there the end is near: a state from before would mislead.
        tasks = self._sub_jobs or [self]
        ended = all(task.paths.result_pickle.exists() for task in tasks)
        mode = "force" if ended else "standard"
        state = JobState(self.watcher.get_state(self.job_id, mode=mode))
        if state in (JobState.FORGOTTEN, JobState.UNKNOWN):
            code = _exit_code(self._exit_code_file)
            if code is not None:
                state = JobState.COMPLETED if code == 0 else JobState.FAILED
        return state.value

    def done(self, force_check: bool = False) -> bool:  # noqa: FBT001, FBT002 - submitit's
        """Tell whether all ranks have a result or the job has ended."""
        if super().done(force_check=force_check):
            return True
        # Only where Slurm says nothing: a script may write its step's code and yet be requeued.
        silent = self.watcher.get_state(self.job_id, mode="cache") == JobState.UNKNOWN.value
        return silent and self._exit_code_file.exists()

    def cancel(self, check: bool = True) -> None:  # noqa: FBT001, FBT002 - submitit's
        """Cancel all components: Slurm does so for the leader's id.

        Raises CommandError where scancel fails; with check=False it does not.
        """
        try:
            run_command(
                ["scancel", self.job_id], timeout_s=_CANCEL_TIMEOUT_S, env=scrubbed(os.environ)
            )
        except CommandError:
            if check:
                raise

    def exception(self) -> utils.UncompletedJobError | utils.FailedJobError | None:
        """Wait for the end; return the error of the rank that failed first, None if none did."""
        self.wait()
        self._settle()
        if not self._sub_jobs:
            return super().exception()
        first = first_error(self._sub_jobs)
        return super().exception() if first is None else first.exception()

    def results(self) -> list[R]:
        """Wait for the end; return what each rank returned, by rank.

        Raises the error of the rank that failed first.
        """
        error = self.exception()
        if error is not None:
            raise error
        return list(super().results())

    def _settle(self) -> None:
        """Wait once for the results of all ranks, so that no rank waits by itself after that."""
        if self._results_timeout_s == 0:
            return
        self._results_timeout_s = 0
        tasks = self._sub_jobs or [self]
        state = JobState(self.state)
        failed = state.is_final and state is not JobState.COMPLETED
        wait_for_results(tasks, _VISIBLE_AFTER_FAILURE_S if failed else _VISIBLE_AFTER_S)
        for task in tasks:
            task._results_timeout_s = 0  # noqa: SLF001 - they are jobs of this class

    @property
    def _exit_code_file(self) -> Path:
        """Where the batch script writes how its step ended; a script that is killed writes none."""
        return self.paths.folder / f"{self.job_id}_exit_code"


def _exit_code(path: Path) -> int | None:
    """Read the code of the batch script's step; None while there is none."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() else None
