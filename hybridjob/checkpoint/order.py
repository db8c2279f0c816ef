"""What the master orders when it has a checkpoint written. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SaveOrder:
    """One checkpoint. draft: the hidden folder for its files.

    delta: only the rows that were touched since the base. behind: answer as soon as there is a
    snapshot in memory, and write while training goes on.
    """

    draft: str
    delta: bool
    behind: bool
