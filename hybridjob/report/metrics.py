"""metrics.jsonl, read for drawing: every step once, in bins where there are very many."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from hybridjob.runs.progress import metric_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

MAX_POINTS = 1500
REST = "rest (data, test)"
# `lookup` is a trainer's; `server lookup` is what a server, on average, has spent.
_ROLE_PHASE = re.compile(r"^(?P<role>server|master)s? (?P<phase>.+)$")


@dataclass(frozen=True, kw_only=True)
class Interval:
    """What happened between two reports of the trainers.

    steps: how many since the report before. seconds: role -> phase -> seconds.
    """

    step: int
    time: float
    steps: int
    loss: float | None
    samples_per_s: float
    of_steps: int
    epoch: int = 0
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Test metrics at a step."""

    step: int
    time: float
    values: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """All that is measured. redone: steps that were done again after a failure."""

    intervals: tuple[Interval, ...] = ()
    scores: tuple[Scores, ...] = ()
    redone: int = 0

    @property
    def last(self) -> Interval | None:
        """The newest report."""
        return self.intervals[-1] if self.intervals else None

    @property
    def median_speed(self) -> float | None:
        """Samples a second, as in most of the time."""
        return median(one.samples_per_s for one in self.intervals) if self.intervals else None


def read_metrics(path: Path, starts: Sequence[float] = ()) -> Metrics:
    """Read the file as far as it is written; a run that is going on may be in mid-line.

    starts: when each generation began, in seconds since 1970.
    Raises OSError other than that the file is not there yet.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return Metrics()
    return collect(metric_lines(text.splitlines()), starts)


def collect(lines: Iterable[dict[str, Any]], starts: Sequence[float] = ()) -> Metrics:
    """Order the lines by step. Where steps were done again, the later line counts."""
    intervals: dict[int, Interval] = {}
    scores: dict[int, Scores] = {}
    before: dict[str, Any] | None = None
    redone = 0
    for line in lines:
        if "loss" in line:
            if before is not None and line["step"] <= before["step"]:
                again = [step for step in intervals if step >= line["step"]]
                redone += before["step"] - line["step"] + _typical_steps(intervals)
                for step in again:
                    del intervals[step]
                scores = {step: one for step, one in scores.items() if step < line["step"]}
                before = None
            elif before is not None and _between(starts, before["time"], line["time"]):
                before = None  # the time since then went into beginning again
            intervals[line["step"]] = _interval(line, before, intervals)
            before = line
        elif values := _with_prefix(line, "test/"):
            scores[line["step"]] = Scores(step=line["step"], time=line["time"], values=values)
    return Metrics(
        intervals=tuple(intervals[step] for step in sorted(intervals)),
        scores=tuple(scores[step] for step in sorted(scores)),
        redone=redone,
    )


def thinned(intervals: Sequence[Interval], points: int = MAX_POINTS) -> list[Interval]:
    """Average neighbours until there are at most so many points: a page must stay light."""
    size = -(-len(intervals) // points)
    if size <= 1:
        return list(intervals)
    return [_merged(intervals[start : start + size]) for start in range(0, len(intervals), size)]


def milliseconds_a_step(one: Interval) -> dict[str, dict[str, float]]:
    """Give role -> phase -> milliseconds of one step."""
    scale = 1000 / max(one.steps, 1)
    return {
        role: {phase: value * scale for phase, value in phases.items()}
        for role, phases in one.seconds.items()
    }


def _interval(
    line: dict[str, Any], before: dict[str, Any] | None, known: dict[int, Interval]
) -> Interval:
    steps = line["step"] - before["step"] if before else _typical_steps(known) or line["step"]
    seconds: dict[str, dict[str, float]] = defaultdict(dict)
    for name, value in _with_prefix(line, "seconds/").items():
        match = _ROLE_PHASE.match(name)
        role, phase = (match["role"], match["phase"]) if match else ("trainer", name)
        seconds[role][phase] = value
    if before and seconds.get("trainer"):
        passed = line["time"] - before["time"]
        seconds["trainer"][REST] = max(0.0, passed - sum(seconds["trainer"].values()))
    return Interval(
        step=line["step"],
        time=line["time"],
        steps=steps,
        loss=line["loss"],
        samples_per_s=line.get("samples_per_s", 0.0),
        of_steps=line.get("of_steps", 0),
        epoch=line.get("epoch", 0),
        seconds=dict(seconds),
    )


def _between(starts: Sequence[float], before: float, after: float) -> bool:
    return any(before < start < after for start in starts)


def _typical_steps(known: dict[int, Interval]) -> int:
    return int(median(one.steps for one in known.values())) if known else 0


def _with_prefix(line: dict[str, Any], prefix: str) -> dict[str, float]:
    return {
        name.removeprefix(prefix): value
        for name, value in line.items()
        if name.startswith(prefix) and isinstance(value, int | float)
    }


def _merged(group: Sequence[Interval]) -> Interval:
    losses = [one.loss for one in group if one.loss is not None]
    seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for one in group:
        for role, phases in one.seconds.items():
            for phase, value in phases.items():
                seconds[role][phase] += value
    last = group[-1]
    return Interval(
        step=last.step,
        time=last.time,
        steps=sum(one.steps for one in group),
        loss=fmean(losses) if losses else None,
        samples_per_s=fmean(one.samples_per_s for one in group),
        of_steps=last.of_steps,
        epoch=last.epoch,
        seconds={role: dict(phases) for role, phases in seconds.items()},
    )
