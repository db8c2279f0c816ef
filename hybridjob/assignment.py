"""What a task and its worker agree on. Imports no torch."""

from __future__ import annotations

import signal
from dataclasses import dataclass

WARNINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)
"""What Slurm, or a person, sends before the end. Slurm sends them to every process of a step: the
task takes them as the wish to save and leave, its worker ignores them."""
LEAVE = "leave"
"""The order, a line on the worker's standard input: save at the next step and end."""
LEFT = 75
"""Exit code: saved and left as asked; start me again (EX_TEMPFAIL of sysexits.h)."""
GAVE_UP = 70
"""Exit code of a task: starting again would not help (EX_SOFTWARE of sysexits.h)."""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What the task tells its worker, as the first line of its standard input."""

    job: dict[str, object]
    folder: str
    generation: str
    parent: int
    local_only: bool
