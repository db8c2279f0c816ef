"""How far a run is and how fast, from the end of metrics.jsonl: reading all of it takes long."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hybridjob.jobfolder import tail_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

_TAIL_BYTES = 64 * 1024
_NEWEST_LINES = 20


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The newest numbers. time: when they were written. steps_per_s: None from one line alone."""

    step: int
    of_steps: int | None = None
    epoch: int | None = None
    loss: float | None = None
    samples_per_s: float | None = None
    time: float
    steps_per_s: float | None = None
    test: dict[str, float] = field(default_factory=dict)

    def seconds_to_end(self, now: float) -> float | None:
        """Estimate the seconds until the last step, at the speed of late; None if unknown."""
        if not self.of_steps or not self.steps_per_s:
            return None
        left = (self.of_steps - self.step) / self.steps_per_s
        return max(0.0, left - max(0.0, now - self.time))


def read_progress(path: Path, *, since: float = 0.0) -> Progress | None:
    """Read the newest numbers; None before the first. Raises OSError.

    since: when the newest life began. The speed is that of lines after it: between lives is a wait.
    """
    lines = _tail(path)
    steps = [line for line in lines if "loss" in line]
    if not steps:
        return None
    newest = steps[-1]
    recent = [line for line in steps if line["time"] >= since]
    tests = [line for line in lines if any(key.startswith("test/") for key in line)]
    test = {key[5:]: value for key, value in (tests[-1] if tests else {}).items() if "test/" in key}
    return Progress(
        step=newest["step"],
        of_steps=newest.get("of_steps"),
        epoch=newest.get("epoch"),
        loss=newest["loss"],
        samples_per_s=newest.get("samples_per_s"),
        time=newest["time"],
        steps_per_s=_speed(recent[-_NEWEST_LINES:]),
        test=test,
    )


def _speed(steps: Sequence[dict[str, Any]]) -> float | None:
    """Give steps a second over the newest lines of one generation: until steps go back."""
    if not steps:
        return None
    first = last = steps[-1]
    for line in reversed(steps[:-1]):
        if line["step"] >= first["step"] or line["time"] >= first["time"]:
            break
        first = line
    seconds = last["time"] - first["time"]
    return (last["step"] - first["step"]) / seconds if seconds > 0 else None


def _tail(path: Path) -> list[dict[str, Any]]:
    """Read the last whole lines. One that is cut by a crash, in the middle, is passed over."""
    try:
        text, is_all = tail_of(path, _TAIL_BYTES)
    except FileNotFoundError:
        return []
    return list(metric_lines(text.split("\n")[0 if is_all else 1 : -1]))


def metric_lines(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Read lines of metrics.jsonl; one that was cut where a node was lost is passed over."""
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and "step" in value and "time" in value:
            yield value
