"""A job of the local executor, with submitit's interface."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, TypeVar

from submitit.core import core, utils

from slurm.errors import LocalJobError
from slurm.local_process import LocalState, read_state, stop_controller
from slurm.outcome import first_error
from slurm.state import JobState

if TYPE_CHECKING:
    from pathlib import Path

R = TypeVar("R", covariant=True)  # noqa: PLC0105 - submitit's own name for it

_POLL_S = 0.05
_LINES_OF_LOG = 20
# The controller kills after the executor's grace; this is far beyond any sensible one.
_CANCEL_TIMEOUT_S = 60.0


class LocalTaskError(LocalJobError, utils.FailedJobError):
    """A rank failed, or the job was cancelled; it is submitit's FailedJobError too."""


class LocalHetJob(core.Job[R]):
    """A job whose tasks are processes on this machine. task(k) is rank k.

    It ends with the process that submitted it.
    """

    _results_timeout_s = 0  # all on one file system: what is not there will not come

    @property
    def local_state(self) -> LocalState:
        """All that the controller has written."""
        return read_state(self.job_id, self.state_file)

    @property
    def state_file(self) -> Path:
        """Where the controller writes the state, as JSON."""
        return self.paths.folder / f"{self.job_id}_state.json"

    @property
    def state(self) -> str:
        """A JobState's value."""
        return self.local_state.state.value

    @property
    def exit_codes(self) -> tuple[int | None, ...]:
        """By rank; None while a task runs, -N for one that signal N ended."""
        return self.local_state.exit_codes

    def done(self, force_check: bool = False) -> bool:  # noqa: FBT001, FBT002 - submitit's
        """Tell whether all processes of the job have ended, those of the other ranks too."""
        del force_check  # nothing is cached
        return self.local_state.state.is_final

    def wait(self) -> None:
        """Wait for the end. On Ctrl-C the job is cancelled, and KeyboardInterrupt goes on."""
        try:
            while not self.done():
                time.sleep(_POLL_S)
        except KeyboardInterrupt:
            self.cancel()
            raise

    def cancel(self, check: bool = True) -> None:  # noqa: FBT001, FBT002 - submitit's
        """End all tasks and wait until they are gone; nothing happens where they are already."""
        if self.local_state.state.is_final:
            return
        try:
            stop_controller(self.job_id, self.state_file, _CANCEL_TIMEOUT_S)
        except LocalJobError:
            if check:
                raise

    def exception(self) -> utils.UncompletedJobError | utils.FailedJobError | None:
        """Wait for the end; return the error of the rank that failed first, None if none did."""
        self.wait()
        state = self.local_state
        if state.state is JobState.COMPLETED:
            return None
        if not self._sub_jobs and (outcome := self._outcome()) is not None:
            return None if outcome == "success" else super().exception()
        if state.state is JobState.FAILED:
            return self._failure(state)
        text = {
            JobState.CANCELLED: "was cancelled",
            JobState.NODE_FAIL: "lost its controller, which was killed; its tasks were ended",
        }.get(state.state, f"is {state.state.value}")
        return LocalTaskError(
            f"local job {self.job_id} {text}. Its logs are in {self.paths.folder}"
        )

    def results(self) -> list[R]:
        """Wait for the end; return what each rank returned, by rank.

        Raises the error of the rank that failed first.
        """
        error = self.exception()
        if error is not None:
            raise error
        return list(super().results())

    def get_info(self, mode: str = "force") -> dict[str, str]:
        """Return the state, in submitit's form."""
        del mode
        return {"JobID": self.job_id, "State": self.state}

    def __del__(self) -> None:
        """Cancel where cancel_at_deletion asks for it."""
        if self._cancel_at_deletion:
            self.cancel(check=False)

    def _register_in_watcher(self) -> None:
        """Do nothing: the state comes from a file."""

    def _outcome(self) -> str | None:
        path = self.paths.result_pickle
        return str(utils.pickle_load(path)[0]) if path.exists() else None

    def _failure(self, state: LocalState) -> utils.FailedJobError:
        """Describe the rank that failed first: its traceback if it wrote one, else its log."""
        tasks = self._sub_jobs or [self]
        rank = state.cause_rank or 0
        # A rank that raised writes its error before it exits. Two that fail at once are told
        # apart by that time, better than by the order in which their ends were seen.
        writer = first_error(tasks) if self._sub_jobs else None
        if writer is not None and writer.task_id is not None:
            rank = writer.task_id if _raised(state, rank) else rank
        cause = utils.JobPaths(self.paths.folder, job_id=self.job_id, task_id=rank)
        how = state.cause_error or _how_it_ended(state.exit_codes[rank])
        lines = [f"rank {rank} of local job {self.job_id} {how}; the others were ended for it"]
        if cause.result_pickle.exists():
            lines.append(str(utils.pickle_load(cause.result_pickle)[1]).rstrip())
        elif cause.stderr.exists():
            log = cause.stderr.read_text(encoding="utf-8", errors="replace").splitlines()
            lines.extend(log[-_LINES_OF_LOG:])
        lines.append(f"Its logs: {cause.stdout} and {cause.stderr}")
        return LocalTaskError("\n".join(lines))


def _raised(state: LocalState, rank: int) -> bool:
    """Tell whether a rank ended as one does that raised, and not by a signal or os._exit."""
    return state.cause_error is None and state.exit_codes[rank] == 1


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "did not end"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with code {code}"
