"""The process that starts the tasks of a local job, watches them, and ends them together.

It is to a local job what srun and the batch script are to one on Slurm. It reads one line of JSON
from its standard input, which the submitting process then holds open: end of file there means
that the submitter is gone. It imports the standard library and one small module only.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from slurm.local_leftovers import kill_leftovers, start_ticks

# How often the parent's id is looked at: a fork of the submitter may hold the pipe open.
_PARENT_CHECK_S = 0.25
_PR_SET_PDEATHSIG = 1


class Controller:
    """A local job, from its first life to its last.

    spec: job_id, state_file, wish_file, grace_s, max_attempts, parent_pid, environment (of all
    tasks), and tasks: by rank argv, environment, stdout, stderr (files that are appended to).
    """

    def __init__(self, spec: dict[str, Any], lifeline: int) -> None:
        self._spec = spec
        self._lifeline = lifeline
        self._state_file = Path(spec["state_file"])
        self._tasks: list[subprocess.Popen[bytes]] = []
        self._exit_codes: list[int | None] = []
        self._state = "RUNNING"
        self._life = self._attempt = 0
        self._signalled = False
        self._forget()
        self._identity = {"host": socket.gethostname(), "started": start_ticks(os.getpid())}
        self._wakeup, writer = os.pipe()
        os.set_blocking(writer, False)
        os.set_blocking(self._wakeup, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def run(self) -> None:
        """Run all tasks, once or in as many lives as they wish, and write the final state."""
        self._write_state()
        self._run_once()
        while self._begins_again():
            self._forget()
            self._run_once()
        self._state = self._ending_as or "COMPLETED"
        self._write_state()

    def _forget(self) -> None:
        """Forget the tasks of the life before."""
        self._tasks = []
        self._exit_codes = [None] * len(self._spec["tasks"])
        self._cause: dict[str, Any] | None = None
        self._ending_as: str | None = None
        self._kill_at = float("inf")

    def _begins_again(self) -> bool:
        """Tell whether the tasks are to be started again, as the batch script does on Slurm.

        A wish to be requeued, or a TERM that made the tasks leave, begins another life; without a
        wish a failure is tried again. The wishes are those of slurm.ending.
        """
        wish_file = Path(self._spec["wish_file"])
        wish = wish_file.read_text(encoding="utf-8").strip() if wish_file.exists() else ""
        wish_file.unlink(missing_ok=True)
        if self._ending_as in (None, "CANCELLED") or self._signalled:
            return False
        if wish in ("requeue", "leave"):
            self._life, self._attempt = self._life + 1, 0
            return True
        self._attempt += 1
        return wish != "give up" and self._attempt < self._spec["max_attempts"]

    def _run_once(self) -> None:
        """Start all tasks and wait until all have ended."""
        try:
            self._start()
            while self._watch():
                self._sleep()
        finally:
            self._kill()
            kill_leftovers(self._spec["job_id"])
            for task in self._tasks:
                task.wait()

    def _start(self) -> None:
        prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
        controller = os.getpid()

        def die_with_controller() -> None:
            if prctl is not None:
                prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != controller:  # it died before the line above
                    os._exit(1)

        counted = {"HETJOB_ATTEMPT": str(self._attempt)}
        if self._life:  # Slurm does not set it in the first life
            counted["SLURM_RESTART_COUNT"] = str(self._life)
        for rank, task in enumerate(self._spec["tasks"]):
            try:
                with open(task["stdout"], "ab") as out, open(task["stderr"], "ab") as err:  # noqa: PTH123
                    process = subprocess.Popen(
                        task["argv"],
                        env={**self._spec["environment"], **task["environment"], **counted},
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=err,
                        start_new_session=True,
                        preexec_fn=die_with_controller,  # noqa: PLW1509 - one thread only
                    )
            except OSError as error:
                self._cause = {"rank": rank, "exit_code": None, "error": str(error)}
                self._end("FAILED")
                return
            self._tasks.append(process)
        self._write_state()

    def _watch(self) -> bool:
        """Look at everything once; return whether any task is still running."""
        if self._signalled:
            self._end("CANCELLED")
        elif self._ending_as is None and self._submitter_is_gone():
            gone = "the process that submitted it, with which it ends, was killed"
            self._cause = {"rank": None, "exit_code": None, "error": gone}
            self._end("CANCELLED")
        if self._collect():
            self._write_state()
        if time.monotonic() >= self._kill_at:
            self._kill()
        return any(code is None for code in self._exit_codes[: len(self._tasks)])

    def _collect(self) -> bool:
        """Note the tasks that have ended; return whether there were any.

        They are not reaped yet: so no other process can get a number that is still to be killed.
        """
        found = False
        for rank, task in enumerate(self._tasks):
            if self._exit_codes[rank] is not None:
                continue
            ended = os.waitid(os.P_PID, task.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                continue
            found = True
            by_itself = ended.si_code == os.CLD_EXITED
            code = ended.si_status if by_itself else -ended.si_status
            self._exit_codes[rank] = code
            if code != 0 and self._ending_as is None:
                self._cause = {"rank": rank, "exit_code": code, "error": None}
                self._end("FAILED")
        return found

    def _end(self, state: str) -> None:
        """Ask all tasks, and what they started, to end; the first reason counts."""
        if self._ending_as is not None:
            return
        self._ending_as = state
        self._kill_at = time.monotonic() + self._spec["grace_s"]
        for number in (signal.SIGCONT, signal.SIGTERM):
            self._signal_groups(number)

    def _kill(self) -> None:
        self._kill_at = float("inf")
        self._signal_groups(signal.SIGKILL)

    def _signal_groups(self, number: signal.Signals) -> None:
        for task in self._tasks:
            # A group of which only the unreaped task is left may answer with either.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(task.pid, number)

    def _sleep(self) -> None:
        timeout = min(_PARENT_CHECK_S, max(0.0, self._kill_at - time.monotonic()))
        # At end of file the pipe is always readable: once that is known, it is left alone.
        watched = [self._wakeup] if self._ending_as else [self._wakeup, self._lifeline]
        select.select(watched, [], [], timeout)
        with suppress(BlockingIOError):
            os.read(self._wakeup, 4096)

    def _submitter_is_gone(self) -> bool:
        if os.getppid() != self._spec["parent_pid"]:
            return True
        readable, _, _ = select.select([self._lifeline], [], [], 0)
        return bool(readable) and os.read(self._lifeline, 4096) == b""

    def _on_signal(self, *_: object) -> None:
        self._signalled = True

    def _write_state(self) -> None:
        """Replace the state file as a whole: a reader never sees half of one."""
        record = {
            "state": self._state,
            "controller_pid": os.getpid(),
            **{f"controller_{name}": value for name, value in self._identity.items()},
            "pids": [task.pid for task in self._tasks],
            "exit_codes": self._exit_codes,
            "cause": self._cause,
        }
        temporary = self._state_file.with_suffix(".tmp")
        text = json.dumps(record) + "\n"
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(self._state_file)
        except OSError as error:
            # A disk that is full must not end the job; the file's own place on it is still ours.
            with suppress(OSError):
                print(f"cannot write {temporary}: {error.strerror}", flush=True)  # noqa: T201
            with suppress(OSError), self._state_file.open("r+", encoding="utf-8") as file:
                file.write(text)
                file.truncate()


def main() -> None:
    """Read the job from standard input and run it."""
    spec = json.loads(_read_line(sys.stdin.fileno()))
    Controller(spec, sys.stdin.fileno()).run()


def _read_line(descriptor: int) -> bytes:
    """Read up to a newline, without a buffer that would hide the end of file from select."""
    chunks: list[bytes] = []
    while not chunks or not chunks[-1].endswith(b"\n"):
        chunk = os.read(descriptor, 65536)
        if not chunk:
            sys.exit("the submitting process ended before it had described the job")
        chunks.append(chunk)
    return b"".join(chunks)
