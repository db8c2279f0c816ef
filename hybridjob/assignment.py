"""What a task and its worker agree on. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

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
