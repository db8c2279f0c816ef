"""Where a job that Slurm knows writes, for who has only its id."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from slurm.environment import scrubbed
from slurm.errors import CommandError

if TYPE_CHECKING:
    from slurm.query import Runner

_TIMEOUT_S = 5.0
_STDOUT = re.compile(r"^\s+StdOut=(.+)/[^/]+$", re.MULTILINE)


def folder_of_output(job_id: str, *, run: Runner) -> str | None:
    """Give the folder of the batch script's output; None where Slurm does not tell."""
    try:
        argv = ["scontrol", "show", "job", job_id]
        text = run(argv, timeout_s=_TIMEOUT_S, env=scrubbed(os.environ)).stdout
    except CommandError:  # it is the caller's last try, and its message names what is there
        return None
    match = _STDOUT.search(text)
    return match[1] if match else None
