"""The lives of a job: each requeue begins one. They are counted, and given up if none gets on."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hybridjob.jobfolder import JobFolder


@dataclass(frozen=True, kw_only=True)
class Life:
    """Where one life began. step: of the newest checkpoint then, 0 if there was none."""

    life: int
    attempt: int
    host: str
    step: int
    time: float


def begin_life(folder: JobFolder, *, life: int, attempt: int, host: str) -> Life:
    """Note that a life, or another attempt in it, begins."""
    now = Life(life=life, attempt=attempt, host=host, step=_newest_step(folder), time=time.time())
    with folder.lives.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(now)) + "\n")
    return now


def read_lives(folder: JobFolder) -> list[Life]:
    """Give all lives and attempts, in order."""
    try:
        text = folder.lives.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [Life(**json.loads(line)) for line in text.splitlines()]


@dataclass(frozen=True, kw_only=True)
class Leave:
    """Why rank 0 has left a life, with all saved. signal: USR2, TERM or INT, or none heard here."""

    life: int
    attempt: int
    signal: str | None
    time: float


def note_leave(folder: JobFolder, *, life: int, attempt: int, signal: str | None) -> None:
    """Note that this life ends on a warning."""
    leave = Leave(life=life, attempt=attempt, signal=signal, time=time.time())
    with folder.leaves.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(leave)) + "\n")


def read_leaves(folder: JobFolder) -> list[Leave]:
    """Give all leaves, in order."""
    try:
        text = folder.leaves.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [Leave(**json.loads(line)) for line in text.splitlines()]


def idle_lives(lives: list[Life]) -> int:
    """Count the lives before the newest one, back to back, that have saved nothing."""
    first_of_each = {one.life: one for one in reversed(lives)}
    *before, newest = [first_of_each[life] for life in sorted(first_of_each)]
    count = 0
    for one in reversed(before):
        if one.step != newest.step:
            break
        count += 1
    return count


def _newest_step(folder: JobFolder) -> int:
    steps = [int(one.name.removeprefix("step-")) for one in folder.checkpoints.glob("step-*")]
    return max(steps, default=0)
