"""Find and end what a local job's tasks started and left behind."""

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
