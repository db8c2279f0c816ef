"""Several jobs from one job file: all combinations of some keys' values. Pure."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from hybridjob.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNUSABLE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 120


@dataclass(frozen=True)
class Point:
    """One job of a sweep. overrides: `key=value`. suffix: tells its values in the run's name."""

    overrides: tuple[str, ...]
    values: dict[str, Any]
    suffix: str


def points_of(sweeps: Sequence[str]) -> list[Point]:
    """Give all combinations of the values of `key=value,value,...`, the last key varying fastest.

    Raises ConfigError for what cannot be read, a key that is given twice, and equal values.
    """
    axes = [_axis(sweep) for sweep in sweeps]
    keys = [key for key, _ in axes]
    for key in keys:
        if keys.count(key) > 1:
            raise ConfigError(f"--sweep {key} is given twice: write all its values in one")
    names = _short_names(keys)
    points = []
    for texts in itertools.product(*(values for _, values in axes)):
        overrides = tuple(f"{key}={text}" for key, text in zip(keys, texts, strict=True))
        values = {key: _value(text) for key, text in zip(keys, texts, strict=True)}
        suffix = "-".join(
            name + _UNUSABLE.sub("_", text).strip("_")
            for name, text in zip(names, texts, strict=True)
        )
        points.append(Point(overrides, values, suffix))
    suffixes = [one.suffix for one in points]
    for one in points:
        if suffixes.count(one.suffix) > 1:
            raise ConfigError(
                f"--sweep: two jobs would be named ...-{one.suffix}: give other values"
            )
    return points


def name_of_point(name: str, point: Point) -> str:
    """Name a job of a sweep."""
    return f"{name}-{point.suffix}"[:_LONGEST_NAME]


def _axis(sweep: str) -> tuple[str, list[str]]:
    key, equals, text = sweep.partition("=")
    values = _split(text)
    if not equals or not key.strip() or not all(values):
        raise ConfigError(f"--sweep {sweep!r}: write it as key.path=value,value,...")
    return key.strip(), values


def _split(text: str) -> list[str]:
    """Cut at the commas that stand in no brackets and no quotes: `[4,8],[16]` is two values."""
    parts, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
        if sign == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def _short_names(keys: Sequence[str]) -> list[str]:
    """Name each key by its last word, or by more where another key ends in the same one."""
    lasts = [key.rpartition(".")[2] for key in keys]
    return [
        last if lasts.count(last) == 1 else key.replace(".", "_")
        for key, last in zip(keys, lasts, strict=True)
    ]


def _value(text: str) -> Any:
    try:
        return tomlkit.value(text).unwrap()
    except (TOMLKitError, ValueError):
        return text
