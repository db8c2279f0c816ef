"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(str, Enum):
    """How serious it is."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True)
class Finding:
    """One line for a person: what was looked at, what was found, and what to change."""

    level: Level
    what: str
    found: str
    change: str = ""

    def __str__(self) -> str:
        change = f" -> {self.change}" if self.change else ""
        return f"{self.level.value:<4}  {self.what}: {' '.join((self.found + change).split())}"


def ok(what: str, found: str) -> Finding:
    """Tell what is well."""
    return Finding(Level.OK, what, found)


def warn(what: str, found: str, change: str) -> Finding:
    """Tell what may do, or could not be seen."""
    return Finding(Level.WARN, what, found, change)


def bad(what: str, found: str, change: str) -> Finding:
    """Tell what would keep the job from running."""
    return Finding(Level.BAD, what, found, change)
