"""What only the ranks' logs tell: hosts, and every checkpoint that was ever saved."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hybridjob.rank_logs import RankLog

# Runs of earlier versions have no date in their logs.
_LINE = re.compile(
    r"^(?:(\d{4}-\d\d-\d\d) )?(\d\d):(\d\d):(\d\d)\S* \S+ (?:INFO|WARNING|ERROR) (.*)$"
)
_SAVED = re.compile(r"^checkpoint saved (.*)$")
_HERE = re.compile(r"^all ranks are here host=(\S+)")
_DAY_S = 86_400
_HEAD_BYTES = 16_384


@dataclass(frozen=True, kw_only=True)
class SavedCheckpoint:
    """A checkpoint that was published. after_s: since the first line of its generation's log."""

    step: int
    after_s: float
    kind: str = ""
    megabytes: float = 0.0
    stall_s: float | None = None
    seconds: float = 0.0


def host_of(log: RankLog) -> str | None:
    """Tell the host that a rank ran on, None if it had not met the others yet."""
    with log.path.open(encoding="utf-8", errors="replace") as file:
        for line in file.read(_HEAD_BYTES).splitlines():
            stamped = _LINE.match(line)
            here = _HERE.match(stamped[5]) if stamped else None
            if here:
                return here[1]
    return None


def saved_checkpoints(log: RankLog) -> list[SavedCheckpoint]:
    """List what the master says it has saved.

    Its lines are in its own time zone, perhaps without a date; so time counts from the first line.
    """
    found: list[SavedCheckpoint] = []
    first: int | None = None
    passed = 0
    with log.path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            stamped = _LINE.match(line)
            if stamped is None:
                continue
            clock = _seconds(stamped)
            first = clock if first is None else first
            since = clock - first - passed
            if stamped[1] is None:
                since %= _DAY_S
            # Two threads may write a second apart in the wrong order: that is no day.
            passed += since if stamped[1] or since < _DAY_S / 2 else 0
            if saved := _SAVED.match(stamped[5]):
                found.append(_saved(dict(_pairs(saved[1])), float(passed)))
    return found


def _seconds(stamped: re.Match[str]) -> int:
    day = 0 if stamped[1] is None else date.fromisoformat(stamped[1]).toordinal()
    clock = (int(stamped[2]) * 60 + int(stamped[3])) * 60 + int(stamped[4])
    return day * _DAY_S + clock


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (part.partition("=") for part in text.split())]


def _saved(values: dict[str, str], after_s: float) -> SavedCheckpoint:
    stall = values.get("stall_s")
    return SavedCheckpoint(
        step=int(values.get("step", 0)),
        after_s=after_s,
        kind=values.get("kind", ""),
        megabytes=float(values.get("mb", 0)),
        stall_s=None if stall is None else float(stall),
        seconds=float(values.get("seconds", 0)),
    )
