"""Find and end what a local job's tasks started and left behind; tell processes apart."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_GIVE_UP_AFTER_S = 5.0
_LOOK_AGAIN_AFTER_S = 0.02


def kill_leftovers(job_id: str) -> None:
    """SIGKILL every process of this user with the job's id in its environment, until none is left.

    This finds a task's own children too, whatever session they moved to. Only where there is a
    /proc; elsewhere it finds nothing. A process that the kernel cannot end is given up in seconds.
    """
    until = time.monotonic() + _GIVE_UP_AFTER_S
    while (leftovers := _processes_of(job_id)) and time.monotonic() < until:
        for pid in leftovers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK_AGAIN_AFTER_S)


def _processes_of(job_id: str) -> list[int]:
    """List the processes of this user, but for this one, that a local job's tasks started."""
    marks = {f"SLURM_JOB_ID={job_id}".encode(), b"SLURM_LOCAL_EXECUTOR=1"}
    found: list[int] = []
    for folder in _PROC.glob("[0-9]*"):
        pid = int(folder.name)
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue  # it has ended, or is another user's
        if pid != os.getpid() and marks <= set(environment.split(b"\0")):
            found.append(pid)
    return found


def start_ticks(pid: int) -> int | None:
    """Give the time at which a process started, in clock ticks since the machine did.

    Together with its id it names one process only. None if there is none, or no /proc.
    """
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name, in parentheses, may hold anything; the fields after it are counted from the third.
    return int(text.rpartition(")")[2].split()[19])
