"""Numbers as a person reads them."""

from __future__ import annotations

import time

_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def duration(seconds: float) -> str:
    """Write a duration with its two largest units: `1 d 3 h`, `12 min 5 s`, `8 s`."""
    whole = max(0, round(seconds))
    for size, unit, smaller, smaller_unit in _UNITS:
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {smaller_unit}" if rest else "")
    return f"{whole} s"


def short_duration(seconds: float) -> str:
    """Write a duration in at most four signs: `3d`, `12m`, `8s`."""
    whole = max(0, round(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def clock(at: float, now: float) -> str:
    """Write a time of this day as `14:05`, one of another with its date."""
    there, here = time.localtime(at), time.localtime(now)
    pattern = "%H:%M" if there[:3] == here[:3] else "%Y-%m-%d %H:%M"
    return time.strftime(pattern, there)


def in_bytes(count: float) -> str:
    """Write a size: `2.3 kB`, `1.2 GB`."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":  # noqa: PLR2004 - decimal units
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("TB is the last unit")


def counted(number: int, word: str) -> str:
    """Write a number with its noun: `1 life`, `2 lives`."""
    plural = f"{word[:-2]}ves" if word.endswith("fe") else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}"
