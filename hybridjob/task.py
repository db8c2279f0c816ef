"""What Slurm, or the local executor, starts for each task: a small parent that imports no torch.

It starts the worker that does the work: one process a generation, since torch RPC cannot be begun
anew within a process. When any rank's worker fails, the first cause is written to a file of the
generation; every task sees it, ends its own worker, and all begin the next generation together.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridjob.assignment import GAVE_UP, LEFT, WARNINGS, Assignment
from hybridjob.data.fetch import ensure_local, resolve
from hybridjob.errors import ConfigError, HybridjobError, RendezvousError
from hybridjob.failures import Failure, read_failure, record_failure
from hybridjob.giving_up import tell_everywhere, tell_why_left, write_failed_summary
from hybridjob.jobfile import dump_job, load_job, parse_job
from hybridjob.jobfolder import JobFolder, read_json, write_atomically
from hybridjob.lives import begin_life, idle_lives, read_lives
from hybridjob.logs import tell, told_if_unwritable
from hybridjob.ranks import RankRecord, write_rank
from hybridjob.roles import name_of
from hybridjob.worker_process import WorkerProcess, describe_end, last_words
from slurm.errors import SlurmError
from slurm.placement import Placement, read_placement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hybridjob.config import Job

_POLL_S = 0.2


class TaskFailedError(HybridjobError):
    """This task's run did not complete, and starting again would not help."""


def run_task(values: dict[str, Any]) -> dict[str, Any]:
    """Run one task of a job from the resolved job file's values. submitit calls this.

    Returns rank and role. Raises TaskFailedError with the first cause; exits with code 75 when it
    has saved and is to be started again.
    """
    job = parse_job(values, source="the job file")
    placement = read_placement(os.environ)
    # A traceback of this parent tells nobody anything: the worker's own is in its log.
    sys.tracebacklimit = 0
    Task(job, placement).run()
    return {"rank": placement.rank, "role": name_of(placement.rank, job.layout)}


class Task:
    """One task of one life of the job."""

    def __init__(self, job: Job, placement: Placement) -> None:
        job.layout.check(placement.num_tasks)
        self._job, self._placement = job, placement
        self._name = name_of(placement.rank, job.layout)
        self._folder = JobFolder(job.run_path / placement.job_id)
        self._attempt = int(os.environ.get("HETJOB_ATTEMPT", "0"))
        self._local = "SLURM_LOCAL_EXECUTOR" in os.environ
        self._worker: WorkerProcess | None = None
        self._warned_by: int | None = None
        self._leave_before = float("inf")
        self._failed = 0

    def run(self) -> None:
        """Run workers, one generation after the other, until the run is complete."""
        try:
            self._folder.create()
            if self._placement.rank == 0:
                self._begin_life()
        except OSError as error:
            raise ConfigError(
                f"cannot write the run folder {self._folder.path}: {error.strerror}"
            ) from error
        with self._hearing_warnings():
            for number in itertools.count():
                generation = f"{self._placement.restart_count}.{self._attempt}.{number}"
                code = self._run_generation(generation)
                if self._is_complete() or (code == 0 and self._placement.rank != 0):
                    self._wish("done")
                    return
                if code == LEFT or self._warned_by == signal.SIGUSR2:
                    self._leave()
                self._settle(generation, code)

    def _begin_life(self) -> None:
        write_atomically(self._folder.job_file, dump_job(self._job))
        if not self._is_complete():
            self._folder.summary.unlink(missing_ok=True)
        place = self._placement
        begin_life(self._folder, life=place.restart_count, attempt=self._attempt, host=place.host)
        idle = idle_lives(read_lives(self._folder))
        if idle >= self._job.recovery.max_idle_lives:
            self._give_up(
                Failure(
                    rank=0, role=self._name, host=place.host, again=False,
                    message=f"{idle} lives in a row have saved nothing (recovery.max_idle_lives): "
                    "see the failures and logs of each, then submit anew",
                ),
                f"{place.restart_count}.{self._attempt}.0",
            )  # fmt: skip

    def _run_generation(self, generation: str) -> int:
        """Run one worker to its end, or end it because another rank's has failed."""
        assignment = Assignment(
            job=self._job.model_dump(mode="json", exclude_defaults=True),
            folder=str(self._folder.path),
            generation=generation,
            parent=os.getpid(),
            local_only=self._local,
        )
        failure = self._folder.failure(generation)
        log = self._folder.log(self._placement.rank, self._name, generation)
        self._worker = worker = WorkerProcess(assignment, log)
        record = self._note_start(worker.pid, generation)
        code = self._wait_for(worker, failure)
        write_rank(self._folder, record.at_its_end(code))
        return code

    def _note_start(self, pid: int, generation: str) -> RankRecord:
        """Say in the job's folder where this rank's worker is."""
        place = self._placement
        record = RankRecord(
            rank=place.rank, name=self._name, host=place.host, component=place.component,
            pid=pid, generation=generation, started=round(time.time(), 3),
        )  # fmt: skip
        write_rank(self._folder, record)
        return record

    def _wait_for(self, worker: WorkerProcess, failure: Path) -> int:
        """Wait for a worker's end, or end it where the generation has failed or time is up."""
        if self._warned_by is not None:
            worker.ask_to_leave()
        while (code := worker.wait(_POLL_S)) is None:
            # Listing the folder, not looking for the file: NFS remembers that it was not there.
            if failure in list(failure.parent.iterdir()):
                return worker.end()
            if time.monotonic() > self._leave_before:
                worker.end()
                return LEFT
        worker.close()
        return code

    def _is_complete(self) -> bool:
        """Tell whether the run is complete: a worker lost after that takes nothing from it."""
        summary = read_json(self._folder.summary)
        return summary is not None and summary["state"] == "completed"

    def _settle(self, generation: str, code: int) -> None:
        """See to it that the first cause is known; return if another generation is to begin."""
        place = self._placement
        path = self._folder.failure(generation)
        log = self._folder.log(place.rank, self._name, generation)
        own = Failure(
            rank=place.rank,
            role=self._name,
            host=place.host,
            message=f"{describe_end(code)}{last_words(log) if code > 0 else ''}; its log: {log}",
        )
        if self._warned_by is None:  # else Slurm ends us all, and it is nobody's failure
            with told_if_unwritable(path, f"; {own}"):
                record_failure(path, own)
        failure = read_failure(path) or own
        self._failed += 1
        # On a full disk no failure leaves a file; an attempt before this one has left its own.
        failed = max(self._failed, len(self._folder.failures(place.restart_count)))
        limit = self._job.recovery.max_restarts
        # A rank that does not arrive has lost its task: no worker of this step can replace it.
        if not failure.again or _lost_a_task(failure) or failed > limit:
            self._give_up(failure, generation)
        if self._warned_by is not None:
            raise TaskFailedError(str(failure))
        tell(f"generation {generation} failed: {failure}; starting again ({failed} of {limit})")

    def _give_up(self, failure: Failure, generation: str) -> None:
        if self._placement.rank == 0:
            place, lost = self._placement, _lost_a_task(failure)
            requeues = place.restart_count
            write_failed_summary(self._folder, self._job.name, failure, requeues=requeues)
            self._wish("again" if lost else "give up")
            # No comment where another step may complete the run.
            job_id = None if self._local or lost else place.job_id
            log = self._folder.log(0, self._name, generation)
            tell_everywhere(failure, log=log, name=self._name, job_id=job_id)
        elif _lost_a_task(failure):  # perhaps that of rank 0, with srun none the wiser
            self._wish_unless_told("again")
        raise TaskFailedError(str(failure))

    def _leave(self) -> None:
        """End this life: all is saved, or the newest checkpoint must do."""
        # TERM comes before a preemption, but also when a step ends because of a lost task.
        self._wish("requeue" if self._warned_by == signal.SIGUSR2 else "leave")
        life, attempt = self._placement.restart_count, self._attempt
        if self._placement.rank == 0:
            tell_why_left(self._folder, life=life, attempt=attempt, warned_by=self._warned_by)
        raise SystemExit(LEFT)

    def _wish(self, what: str) -> None:
        """Tell the batch script, or the local executor, what is to follow.

        It sees one exit code only, that of whichever task ended worst.
        """
        path = os.environ.get("HETJOB_EXIT_WISH")
        if path and self._placement.rank == 0:
            with told_if_unwritable(Path(path)):  # then the exit code says it, if less well
                write_atomically(Path(path), what + "\n")

    def _wish_unless_told(self, what: str) -> None:
        """Speak for rank 0, if it has said nothing."""
        path = os.environ.get("HETJOB_EXIT_WISH")
        # Where the job has no folder it lies on rank 0's node alone.
        if path and (file := Path(path)).parent.is_dir():
            with (
                told_if_unwritable(file),
                contextlib.suppress(FileExistsError),
                file.open("x") as one,
            ):
                one.write(what + "\n")

    @contextlib.contextmanager
    def _hearing_warnings(self) -> Iterator[None]:
        """Take TERM, INT and USR2 as the wish to save and leave; a second one changes nothing."""

        def warned(number: int, _frame: object) -> None:
            # The time limit's warning counts more: after it, no one else brings the job back.
            if self._warned_by is None or number == signal.SIGUSR2:
                self._warned_by = number
            self._leave_before = min(
                self._leave_before, time.monotonic() + self._job.recovery.leave_timeout_s
            )
            if self._worker is not None:
                self._worker.ask_to_leave()

        before = {number: signal.signal(number, warned) for number in WARNINGS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _lost_a_task(failure: Failure) -> bool:
    return failure.kind == RendezvousError.__name__


def main(arguments: list[str]) -> int:
    """Run one task from a job file: `python -m hybridjob.task JOB.toml [key=value ...]`."""
    if not arguments:
        print("usage: python -m hybridjob.task JOB.toml [key=value ...]", file=sys.stderr)  # noqa: T201
        return 2
    try:
        job = load_job(Path(arguments[0]), arguments[1:])
        placement = read_placement(os.environ)
        if placement.rank == 0:
            ensure_local(job.data)  # submit.py does it on the login node
        Task(job.model_copy(update={"data": resolve(job.data)}), placement).run()
    except (HybridjobError, SlurmError) as error:
        print(f"hybridjob: {error}", file=sys.stderr)  # noqa: T201
        return GAVE_UP
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
