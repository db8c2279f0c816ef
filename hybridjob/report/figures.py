"""The page's charts, as plotly's figures in plain JSON.

A text that begins with @ names a colour of the page's style, which differs in light and dark.
"""

from __future__ import annotations

from datetime import datetime, timezone
from statistics import median
from typing import TYPE_CHECKING, Any

from hybridjob.report.metrics import milliseconds_a_step, thinned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hybridjob.report.facts import Facts
    from hybridjob.report.generations import Generation
    from hybridjob.report.metrics import Interval

Figure = dict[str, Any]
_PEAK = 4
_FEW = 20  # a line through few points, or one, is not seen without marks
_COLOURS = ("@c1", "@c2", "@c3", "@c4", "@c5", "@c7", "@c8", "@c6")


def figures_of(facts: Facts) -> dict[str, Figure]:
    """Draw what there is something to draw of: name -> figure."""
    intervals = thinned(facts.metrics.intervals)
    drawn: dict[str, Figure] = {}
    if intervals:
        drawn["loss"] = _loss(intervals)
        drawn["speed"] = _speed(intervals)
    if len(intervals) > 1:
        drawn |= {f"phases-{role}": _phases(intervals, role) for role in _roles(intervals)}
    if facts.metrics.scores:
        drawn |= _test_metrics(facts)
    if facts.generations:
        drawn["timeline"] = _timeline(facts)
    if facts.balance is not None:
        drawn["balance"] = _balance(facts.balance.tables)
    return drawn


def _line(x: Sequence[Any], y: Sequence[Any], *, name: str, colour: str, **more: Any) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(x) <= _FEW else "lines",
        "x": list(x),
        "y": list(y),
        "name": name,
        "line": {"color": colour, "width": 2},
        **more,
    }


def _over_steps(traces: list[Figure], y_title: str, **more: Any) -> Figure:
    layout = {"xaxis": {"title": {"text": "step"}}, "yaxis": {"title": {"text": y_title}}, **more}
    return {"data": traces, "layout": layout}


def _loss(intervals: list[Interval]) -> Figure:
    steps, losses = [one.step for one in intervals], [one.loss for one in intervals]
    return _over_steps([_line(steps, losses, name="loss", colour="@c1")], "training loss")


def _speed(intervals: list[Interval]) -> Figure:
    steps, speeds = [one.step for one in intervals], [one.samples_per_s for one in intervals]
    line = _line(steps, speeds, name="samples/s", colour="@c2")
    figure = _over_steps([line], "samples/s")
    figure["layout"]["yaxis"]["rangemode"] = "tozero"
    return figure


def _test_metrics(facts: Facts) -> dict[str, Figure]:
    """Draw each metric by itself: their scales have nothing to do with each other."""
    scores = facts.metrics.scores
    names = dict.fromkeys(name for one in scores for name in one.values)
    return {
        f"test-{name}": _over_steps(
            [
                _line(
                    [one.step for one in scores],
                    [one.values.get(name) for one in scores],
                    name=name,
                    colour="@c3",
                )
            ],
            f"test {name}",
        )
        for name in names
    }


def _roles(intervals: list[Interval]) -> list[str]:
    return list(dict.fromkeys(role for one in intervals for role in one.seconds))


def _phases(intervals: list[Interval], role: str) -> Figure:
    """Stack the milliseconds of a step by phase, in the order in which they are taken."""
    with_role = [one for one in intervals if role in one.seconds]
    by_step = [milliseconds_a_step(one)[role] for one in with_role]
    steps = [one.step for one in with_role]
    names = list(dict.fromkeys(phase for phases in by_step for phase in phases))
    names.sort(key=lambda name: name.startswith("rest"))  # last, on top
    traces = [
        _line(
            steps,
            [phases.get(name, 0.0) for phases in by_step],
            name=name,
            colour="@grey" if name.startswith("rest") else _COLOURS[index % len(_COLOURS)],
            mode="lines",
            stackgroup="phases",
            hovertemplate="%{y:.1f} ms",
        )
        for index, name in enumerate(names)
    ]
    for trace in traces:
        trace |= {"fillcolor": trace["line"]["color"], "line": {**trace["line"], "width": 0}}
    figure = _over_steps(traces, "ms a step", hovermode="x unified", showlegend=True)
    totals = [sum(phases.values()) for phases in by_step]
    ceiling = _PEAK * median(totals)
    if max(totals) > ceiling > 0:
        # The first steps compile and connect: they would press all others to the ground.
        figure["layout"]["yaxis"] = {
            "title": {"text": "ms a step (peaks cut)"},
            "range": [0, ceiling],
        }
    return figure


def _balance(tables: dict[str, list[int]]) -> Figure:
    """Stack the bytes of each server by table."""
    servers = len(next(iter(tables.values())))
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": table,
            "y": [f"ps{index}" for index in range(servers)],
            "x": [size / 1e6 for size in sizes],
            "marker": {"color": _COLOURS[number % len(_COLOURS)]},
            "hovertemplate": f"{table}: %{{x:.3f}} MB<extra>%{{y}}</extra>",
        }
        for number, (table, sizes) in enumerate(tables.items())
    ]
    layout = {
        "barmode": "stack",
        "showlegend": len(tables) > 1,
        "xaxis": {"title": {"text": "MB of rows and optimizer state"}},
        "yaxis": {"autorange": "reversed"},
    }
    return {"data": traces, "layout": layout}


def _timeline(facts: Facts) -> Figure:
    """Draw lives and generations as bars over time, checkpoints and faults as marks."""
    bars = [_bar("life", f"life {life}", *span, colour="@c6") for life, span in _lives(facts)]
    bars += [_generation_bar(one, facts) for one in facts.generations]
    saved = [pair for one in facts.generations for pair in one.saved]
    marks = [
        _marks(
            "checkpoint",
            [time for time, _ in saved],
            [f"step {one.step}, {one.megabytes:.1f} MB {one.kind}".strip() for _, one in saved],
            {"symbol": "diamond", "color": "@c3"},
        ),
        _marks(
            "fault",
            [one.end for one in facts.generations if one.failure],
            [str(one.failure)[:160] for one in facts.generations if one.failure],
            {"symbol": "x", "color": "@bad"},
        ),
    ]
    order = ["fault", "checkpoint", "generation", "life"]
    layout = {
        "barmode": "overlay",
        "xaxis": {"type": "date", "title": {"text": "UTC"}},
        "yaxis": {"type": "category", "categoryorder": "array", "categoryarray": order},
    }
    return {"data": [*bars, *marks], "layout": layout}


def _lives(facts: Facts) -> list[tuple[int, tuple[float, float]]]:
    spans: dict[int, tuple[float, float]] = {}
    for one in facts.generations:
        start, end = spans.get(one.life, (one.start, one.end))
        spans[one.life] = (min(start, one.start), max(end, one.end))
    for life in facts.lives:
        start, end = spans.get(life.life, (life.time, life.time))
        spans[life.life] = (min(start, life.time), end)
    return sorted(spans.items())


def _generation_bar(one: Generation, facts: Facts) -> Figure:
    if one.failure is not None:
        how, colour = f"failed: {str(one.failure)[:120]}", "@c5"
    elif one is facts.generations[-1]:
        how, colour = facts.state, "@c1"
    else:
        how, colour = "left, as asked", "@c1"
    return _bar("generation", f"{one.name}: {how}", one.start, one.end, colour=colour)


def _bar(row: str, text: str, start: float, end: float, *, colour: str) -> Figure:
    return {
        "type": "bar",
        "orientation": "h",
        "y": [row],
        "base": [_date(start)],
        "x": [max(1.0, 1000 * (end - start))],  # a date axis counts in milliseconds
        "width": 0.55,
        "marker": {"color": colour, "line": {"color": "@card", "width": 2}},
        "hovertemplate": f"{_plain(text)}, {end - start:,.0f} s<extra></extra>",
    }


def _marks(row: str, times: list[float], texts: list[str], marker: Figure) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "y": [row] * len(times),
        "x": [_date(time) for time in times],
        "text": [_plain(text) for text in texts],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"size": 11, **marker},
    }


def _plain(text: str) -> str:
    """Keep plotly from reading a text as its own markup."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("%{", "% {")):
        text = text.replace(character, entity)
    return text


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")[:23]
