"""A worker as its task sees it: a child process that can be given orders, and ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict
from typing import IO, TYPE_CHECKING

from hybridjob.assignment import LEAVE, WARNINGS
from hybridjob.jobfolder import tail_of
from hybridjob.logs import stamp_of

if TYPE_CHECKING:
    from pathlib import Path

    from hybridjob.assignment import Assignment


_LAST_LINES = 5
_TAIL_BYTES = 64 * 1024


class WorkerProcess:
    """Starts the worker and copies its output to its log and to the task's own."""

    def __init__(self, assignment: Assignment, log: Path) -> None:
        # The worker begins with the warnings blocked, and ignores them from its first lines on.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, WARNINGS)
        try:
            self._process = self._start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if self._process.stdout is None:
            raise AssertionError("asked for pipes")
        self._copier = threading.Thread(target=_copy, args=(self._process.stdout, log))
        self._copier.start()
        self._write(json.dumps(asdict(assignment)))

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-u", "-m", "hybridjob.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # torch's C++ side prints a stack a lost peer; the worker says it in one line.
            env={"TORCH_CPP_LOG_LEVEL": "ERROR", **os.environ},
            # Ctrl-C on a terminal goes to a process group: the task alone shall hear it.
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its process id on this host."""
        return self._process.pid

    def ask_to_leave(self) -> None:
        """Tell it to save at the next step and end. Nothing if it has ended."""
        self._write(LEAVE)

    def wait(self, timeout_s: float) -> int | None:
        """Give its exit code, negative for a signal; None if it still works after this time."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> int:
        """Kill it, and all that it has started, at once. Returns its exit code."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        self.close()
        return code

    def close(self) -> None:
        """Collect the last of its output. It must have ended."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._copier.join()

    def _write(self, line: str) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # it has ended: its code tells why
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()


def describe_end(code: int) -> str:
    """Say how a worker ended."""
    if code >= 0:
        return f"its worker ended with exit code {code}"
    hint = " (out of memory?)" if -code == signal.SIGKILL else ""
    return f"its worker was killed by {signal.Signals(-code).name}{hint}"


def last_words(log: Path) -> str:
    """Give the last line that is no log line: it may be the exception of a failed import."""
    try:
        lines = tail_of(log, _TAIL_BYTES)[0].split("\n")[-_LAST_LINES:]
    except OSError:  # the disk was full, and what ended it is told without
        return ""
    spoken = [line.strip() for line in lines if line.strip()]
    return f" ({spoken[-1]})" if spoken and stamp_of(spoken[-1]) is None else ""


def _copy(source: IO[bytes], log: Path) -> None:
    with log.open("ab", buffering=0) as file, source:
        while chunk := source.read1(65536):  # type: ignore[attr-defined]
            for target in (file, sys.stdout.buffer):
                with contextlib.suppress(OSError):  # a full disk must not stop the training
                    target.write(chunk)
                    target.flush()
