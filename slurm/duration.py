"""Slurm's time strings."""

from __future__ import annotations

import re

_UNLIMITED = frozenset({"UNLIMITED", "INFINITE"})
# Days and hours, then perhaps minutes, then perhaps seconds.
_WITH_DAYS = re.compile(r"(\d+)-(\d+)(?::(\d+))?(?::(\d+))?")
# One number is minutes, two are minutes and seconds, three begin with hours.
_WITHOUT_DAYS = re.compile(r"(\d+)(?::(\d+))?(?::(\d+))?")


def parse_duration(text: str) -> int | None:
    """Turn a time limit into seconds; None is no limit.

    The forms are those of sbatch's manual: ``5`` (minutes), ``5:30`` (minutes:seconds),
    ``1:00:00``, ``1-0`` (days-hours), ``1-12:30``, ``1-00:00:00``, UNLIMITED and INFINITE.
    Raises ValueError for any other text.
    """
    word = text.strip()
    if word.upper() in _UNLIMITED:
        return None
    if match := _WITH_DAYS.fullmatch(word):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if match := _WITHOUT_DAYS.fullmatch(word):
        first, second, third = match.groups()
        if third is not None:
            return (int(first) * 60 + int(second)) * 60 + int(third)
        return int(first) * 60 + int(second or 0)
    raise ValueError(
        f"{text!r} is no time limit: write minutes, minutes:seconds, hours:minutes:seconds, "
        "days-hours, days-hours:minutes, days-hours:minutes:seconds, or UNLIMITED"
    )
