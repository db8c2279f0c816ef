"""What Slurm, or the local executor, starts for each task: a small parent that imports no torch.

It starts the worker that does the work, keeps its log, passes signals on, and tells how it ended.
A worker can thus be ended at any time, even from within a call that never returns.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hybridjob.data.fetch import ensure_local, resolve
from hybridjob.errors import ConfigError, HybridjobError
from hybridjob.failures import Failure, read_failure, record_failure
from hybridjob.jobfile import dump_job, load_job, parse_job
from hybridjob.jobfolder import JobFolder, read_json, write_atomically
from hybridjob.roles import name_of
from slurm.errors import SlurmError
from slurm.placement import Placement, read_placement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hybridjob.config import Job

_PASSED_ON = (signal.SIGTERM, signal.SIGINT)


class TaskFailedError(HybridjobError):
    """This task's worker did not complete the run."""


def run_task(values: dict[str, Any]) -> dict[str, Any]:
    """Run one task of a job from the resolved job file's values. submitit calls this.

    Returns rank and role. Raises TaskFailedError with the first cause.
    """
    job = parse_job(values, source="the job file")
    placement = read_placement(os.environ)
    # A traceback of this parent tells nobody anything: the worker's own is in its log.
    sys.tracebacklimit = 0
    return Task(job, placement).run()


class Task:
    """One task of one life of the job."""

    def __init__(self, job: Job, placement: Placement) -> None:
        self._job, self._placement = job, placement
        self._folder = JobFolder(job.run_path / placement.job_id)
        self._generation = placement.restart_count
        self._ended_by: int | None = None
        """The signal that told this task to end."""

    def run(self) -> dict[str, Any]:
        """Run the worker to its end."""
        self._job.layout.check(self._placement.num_tasks)
        name = name_of(self._placement.rank, self._job.layout)
        try:
            self._folder.create()
        except OSError as error:
            raise ConfigError(
                f"cannot write the run folder {self._folder.path}: {error.strerror}"
            ) from error
        if self._placement.rank == 0:
            write_atomically(self._folder.job_file, dump_job(self._job))
        code = self._run_worker(name)
        if code != 0:
            self._fail(name, code)
        return {"rank": self._placement.rank, "role": name}

    def _run_worker(self, name: str) -> int:
        assignment = {
            "job": self._job.model_dump(mode="json", exclude_defaults=True),
            "folder": str(self._folder.path),
            "generation": self._generation,
            "parent": os.getpid(),
            "local_only": "SLURM_LOCAL_EXECUTOR" in os.environ,
        }
        log = self._folder.log(self._placement.rank, name, self._generation)
        with subprocess.Popen(
            [sys.executable, "-u", "-m", "hybridjob.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # torch's C++ side prints a stack a lost peer; the worker says it in one line.
            env={"TORCH_CPP_LOG_LEVEL": "ERROR", **os.environ},
        ) as worker:
            if worker.stdin is None or worker.stdout is None:
                raise AssertionError("asked for pipes")
            with self._passing_signals_on(worker):
                worker.stdin.write(json.dumps(assignment).encode())
                worker.stdin.close()
                copier = threading.Thread(target=_copy, args=(worker.stdout, log))
                copier.start()
                code = worker.wait()
                copier.join()
        return code

    @contextlib.contextmanager
    def _passing_signals_on(self, worker: subprocess.Popen[bytes]) -> Iterator[None]:
        def pass_on(number: int, _frame: object) -> None:
            self._ended_by = number
            worker.send_signal(number)

        before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _fail(self, name: str, code: int) -> None:
        place = self._placement
        path = self._folder.failure(self._generation)
        log = self._folder.log(place.rank, name, self._generation)
        own = Failure(
            rank=place.rank, role=name, host=place.host, message=f"{_ended(code)}; its log: {log}"
        )
        # A worker that ended by an error has said why; one that was killed could not; and one that
        # we were told to end is nobody's failure.
        if self._ended_by is None:
            record_failure(path, own)
        failure = read_failure(path) or own
        if place.rank == 0:
            self._write_summary(failure)
        raise TaskFailedError(str(failure))

    def _write_summary(self, failure: Failure) -> None:
        if read_json(self._folder.summary) is None:
            summary = {
                "state": "failed",
                "name": self._job.name,
                "cause": str(failure),
                "detail": failure.detail,
                "generations": 1,
                "requeues": self._placement.restart_count,
            }
            write_atomically(self._folder.summary, json.dumps(summary, indent=1) + "\n")


def _copy(source: IO[bytes], log: Path) -> None:
    """Copy the worker's output to its log and to this task's own, which submitit shows."""
    with log.open("ab", buffering=0) as file, source:
        while chunk := source.read1(65536):  # type: ignore[attr-defined]
            for target in (file, sys.stdout.buffer):
                with contextlib.suppress(OSError):  # a full disk must not stop the training
                    target.write(chunk)
                    target.flush()


def _ended(code: int) -> str:
    if code >= 0:
        return f"its worker ended with exit code {code}"
    hint = " (out of memory?)" if -code == signal.SIGKILL else ""
    return f"its worker was killed by {signal.Signals(-code).name}{hint}"


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
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
