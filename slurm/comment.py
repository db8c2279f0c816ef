"""A word about a job for whoever looks at it in Slurm: `squeue -o %k`, `scontrol show job`."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from slurm.command import run_command
from slurm.environment import scrubbed
from slurm.errors import CommandError
from slurm.requeue import held_back

if TYPE_CHECKING:
    from slurm.query import Runner

_TIMEOUT_S = 5.0
_LONGEST = 200


def set_comment(job_id: str, text: str, *, run: Runner = run_command) -> str | None:
    """Set a job's comment, cut to one line of 200 signs. Returns None, or why it is not set."""
    line = " ".join(text.split())
    if len(line) > _LONGEST:
        line = line[: _LONGEST - 3] + "..."
    argv = ["scontrol", "update", f"jobid={job_id}", f"comment={line}"]
    try:
        # The SIGTERM that ends a failing step is sent to all its processes.
        with held_back(signal.SIGTERM):
            run(argv, timeout_s=_TIMEOUT_S, env=scrubbed(os.environ))
    except CommandError as error:
        return str(error)
    return None
