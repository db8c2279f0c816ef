"""What a batch script runs around srun: `python -m slurm.batch [options] -- srun ...`.

It tries a step again that was lost within the allocation, and sends the job back to the queue when
its tasks ask for that. A script starts it by `exec`, so that it is the process that Slurm signals.
Tasks find HETJOB_ATTEMPT (0, 1, ... within one life of the job) and HETJOB_EXIT_WISH, a file where
rank 0 may write a word of slurm.ending.Wish before it exits, in their environment.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from slurm.command import run_command
from slurm.ending import REQUEUE_ME, Ended, Next, Wish, decide, parse_wish
from slurm.own_job import OwnJob
from slurm.say import say
from slurm.step import NOT_FOUND, run_step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from slurm.query import Runner

_SURVIVED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_END_DEADLINE_S = 60.0
_POLL_S = 0.1
_AGAIN_LINGER_S = 20.0


class Batch:
    """One life of a job, from the batch script's start to its end.

    folder: the job's, or None; stale results of submitit are removed there before each step, and
    the step's exit code is written there at the end. wish_file: where rank 0 may say what it wants.
    quick_s: seconds in which a failure is not put down to a time limit that is near.
    """

    def __init__(
        self,
        srun: Sequence[str],
        *,
        environment: Mapping[str, str],
        wish_file: Path,
        folder: Path | None = None,
        max_attempts: int = 3,
        linger_s: float = 90.0,
        quick_s: float = 20.0,
        run: Runner = run_command,
    ) -> None:
        self._srun, self._environment = list(srun), dict(environment)
        self._job = OwnJob(environment, run=run)
        self._wish_file, self._folder = wish_file, folder
        self._max_attempts, self._linger_s = max_attempts, linger_s
        self._job_id = environment["SLURM_JOB_ID"]
        self._heard: set[int] = set()
        self._began, self._quick_s = time.monotonic(), quick_s

    def run(self) -> int:
        """Run the step, again where that helps; return the batch script's exit code."""
        for number in _SURVIVED:
            signal.signal(number, self._hear)
        attempt = 0
        while True:
            cleared = self._job.end_left_over_steps(first=attempt == 0)
            if attempt > 0 and not cleared:
                say(f"a node seems to be lost, sending job {self._job.leader} back to the queue")
                return self._requeue()
            self._remove_stale_results()
            more = {"HETJOB_ATTEMPT": str(attempt), "HETJOB_EXIT_WISH": str(self._wish_file)}
            code = run_step(
                self._srun,
                env={**self._environment, **more},
                may_linger_s=self._may_linger_s,
            )
            attempt += 1
            wish = self._wish()
            following, end_code = decide(self._look(code, wish, self._max_attempts - attempt))
            how = f"srun ended with {code}" + (f", its tasks wish: {wish.value}" if wish else "")
            match following:
                case Next.TRY_AGAIN:
                    say(f"{how}, trying again (attempt {attempt + 1} of {self._max_attempts})")
                case Next.REQUEUE:
                    say(f"{how}, sending job {self._job.leader} back to the queue")
                    return self._requeue()
                case Next.END:
                    if end_code != 0:
                        say(f"{how}, ending with {end_code}")
                        if signal.SIGTERM in self._heard:
                            self._job.bring_along()
                    self._write_exit_code(end_code)
                    return end_code

    def _hear(self, number: int, _frame: object) -> None:
        """Note a signal; nothing else: the tasks hear Slurm's signals themselves."""
        if number not in self._heard:
            say(f"heard {signal.Signals(number).name}")
        self._heard.add(number)

    def _remove_stale_results(self) -> None:
        """Remove what must not be taken for this step's result or wish."""
        self._wish_file.unlink(missing_ok=True)
        if self._folder is not None:
            for pattern in ("_*_result.pkl", "_*_result.pkl.save_tmp", "_exit_code"):
                for path in self._folder.glob(self._job_id + pattern):
                    path.unlink(missing_ok=True)

    def _wish(self) -> Wish | None:
        with suppress(FileNotFoundError):
            return parse_wish(self._wish_file.read_text(encoding="utf-8"))
        return None

    def _may_linger_s(self) -> float | None:
        """Give the seconds that srun has from the tasks' last word on; None before it."""
        match self._wish():
            case None:
                return None
            case Wish.AGAIN:  # what is left of the step has nothing to save
                return min(_AGAIN_LINGER_S, self._linger_s)
            case _:
                return self._linger_s

    def _look(self, code: int, wish: Wish | None, attempts_left: int) -> Ended:
        """Gather what the decision needs; Slurm is asked only where its answer counts."""
        warned = signal.SIGTERM in self._heard
        ended = Ended(code=code, wish=wish, warned=warned, attempts_left=attempts_left)
        if code == NOT_FOUND:
            return replace(ended, attempts_left=0)
        if wish is Wish.DONE:
            return ended
        # srun says 0 after a node's failure, too; but a success is not kept waiting for Slurm.
        ended = replace(ended, states=self._job.states(patient=code != 0))
        # What fails at once would fail at once in each life.
        lasted = time.monotonic() - self._began > self._quick_s
        if lasted and ended.leader_runs and (code != 0 or wish is not None):
            ended = replace(ended, ends_soon=self._job.ends_soon())
        if wish is not Wish.LEAVE:
            return ended
        return replace(ended, preempted=self._job.is_preempted())

    def _requeue(self) -> int:
        """Send the job back to the queue and wait to be ended; return the exit code."""
        problem = self._job.requeue()
        if problem is not None:
            say(f"not requeued: {problem}; ending with {REQUEUE_ME}, which RequeueExit may name")
            self._write_exit_code(REQUEUE_ME)
            return REQUEUE_ME
        # Slurm ends this script with SIGTERM, and by then has noted that the job comes back.
        deadline = time.monotonic() + _END_DEADLINE_S
        while signal.SIGTERM not in self._heard and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return REQUEUE_ME

    def _write_exit_code(self, code: int) -> None:
        if self._folder is not None:
            path = self._folder / f"{self._job_id}_exit_code"
            try:
                path.write_text(f"{code}\n", encoding="utf-8")
            except OSError as error:  # a full disk must not change how the job ends
                say(f"cannot write {path}: {error.strerror}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    given, srun = _parse(list(sys.argv[1:] if arguments is None else arguments))
    # Without a folder of the job, one on this node will do: rank 0 runs on it, too.
    folder: AbstractContextManager[str] = (
        nullcontext(str(given.job_folder))
        if given.job_folder
        else tempfile.TemporaryDirectory(prefix="hetjob-")
    )
    with folder as wish_folder:
        batch = Batch(
            srun,
            environment=os.environ,
            wish_file=Path(wish_folder) / "exit_wish",
            folder=given.job_folder,
            max_attempts=max(given.max_attempts, 1),
            linger_s=given.linger,
        )
        return batch.run()


def _parse(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Read the options, and the command behind ``--``. Exits with 2 for a mistake."""
    parser = argparse.ArgumentParser(
        prog="python -m slurm.batch",
        usage="%(prog)s [--max-attempts N] [--linger S] [--job-folder F] -- srun ...",
        description="Run srun as a batch script should, and again where that helps.",
    )
    parser.add_argument("--max-attempts", type=int, default=3, help="steps in one life of the job")
    parser.add_argument("--linger", type=float, default=90.0, help="seconds for srun after a wish")
    parser.add_argument("--job-folder", type=Path, help="where exit_wish and results lie")
    split = words.index("--") if "--" in words else len(words)
    given, srun = parser.parse_args(words[:split]), words[split + 1 :]
    if not srun:
        parser.error("no command: write -- and the whole srun command behind it")
    if "SLURM_JOB_ID" not in os.environ:
        parser.error("SLURM_JOB_ID is not set: a batch script runs this, within a job")
    return given, srun


if __name__ == "__main__":
    sys.exit(main())
