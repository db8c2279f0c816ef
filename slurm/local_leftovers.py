"""Find and end what a local job's tasks started and left behind; tell processes apart."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def kill_leftovers(job_id: str) -> list[int]:
    """SIGKILL every process of this user with the job's id in its environment; return their ids.

    This finds a task's own children too, whatever session they moved to. Only where there is a
    /proc; elsewhere it finds nothing.
    """
    marks = {f"SLURM_JOB_ID={job_id}".encode(), b"SLURM_LOCAL_EXECUTOR=1"}
    killed: list[int] = []
    for folder in _PROC.glob("[0-9]*"):
        pid = int(folder.name)
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue  # it has ended, or is another user's
        if pid != os.getpid() and marks <= set(environment.split(b"\0")):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
    return killed


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
