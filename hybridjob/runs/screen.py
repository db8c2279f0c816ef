"""The screen of `hybridjob status`: the values as lines of text, at most as wide as asked."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from hybridjob.runs.columns import lay_out
from hybridjob.runs.phrases import clock, counted, duration, in_bytes
from hybridjob.runs.reasons import explain_reason

if TYPE_CHECKING:
    from collections.abc import Iterator

_INDENT = 10
_MOST_RANKS = 16
_MOST_REQUEUES = 3
_WELL = ("running", "done")


def status_lines(values: dict[str, Any], now: float, width: int) -> list[str]:
    """Lay the values out. The first cause comes before all else."""
    title = f"{values['name']}  job {values['job_id']}  {values['state'].upper()}"
    if values["slurm_state"] == "FORGOTTEN":
        title += "  (Slurm has forgotten it)"
    elif values["slurm_state"] and values["slurm_state"].lower() != values["state"]:
        title += f"  (Slurm: {values['slurm_state']})"
    lines = [title]
    for label, text in _facts(values, now):
        lines += _wrapped(label, text, width)
    if values["components"]:
        cells = ("component", "name", "state", "partition", "nodes", "reason")
        rows = [[_cell(one[cell]) for cell in cells] for one in values["components"]]
        lines += ["", *lay_out([list(cells), *rows], width, flexible=4, right=())]
    if any(one["pid"] is not None for one in values["ranks"]):
        lines += ["", *_ranks(values["ranks"], now, width)]
    return lines


def _facts(values: dict[str, Any], now: float) -> Iterator[tuple[str, str]]:
    yield from _news(values, now)
    yield from _numbers(values, now)
    yield "job", _lives(values, now)
    for one in values["requeues"][-_MOST_REQUEUES:]:
        yield "requeued", f"{clock(one['time'], now)} at step {one['step']:,}: {one['why']}"
    yield "saved", _saved(values, now)
    for damage in values["passed_over"]:
        yield "damaged", f"{damage}. It was passed over"
    yield from _what_it_is(values)
    yield "folder", values["folder"]


def _news(values: dict[str, Any], now: float) -> Iterator[tuple[str, str]]:
    if values["cause"]:
        yield "cause", values["cause"]["text"]
    elif values["last_failure"] and values["state"] in ("running", "starting", "unknown"):
        yield "failed", f"{values['last_failure']} (and went on)"
    if values["healed"]:
        yield "healed", values["healed"]
    if values["problem"]:
        yield "note", f"{values['problem']}. This is what the run folder knows"
    if values["job_file_problem"]:
        yield "note", f"its job file is not understood: {values['job_file_problem']}"
    if values["state"] in ("pending", "requeued"):
        yield "waits", _waits(values, now)


def _numbers(values: dict[str, Any], now: float) -> Iterator[tuple[str, str]]:
    if values["step"] is not None:
        yield "progress", _progress(values, now)
    if values["recovering"] is not None:
        yield "recovers", _recovery(values["recovering"], now)
    if values["test"]:
        yield "test", "  ".join(f"{name} {value:.4f}" for name, value in values["test"].items())
    time = _time(values, now)
    if time and values["state"] not in ("pending", "requeued"):
        yield "time", time


def _what_it_is(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if values["tables"]["bytes"] is not None:
        servers = values["tables"]["servers"]
        where = f" on {counted(servers, 'server')}" if servers else ""
        yield "tables", in_bytes(values["tables"]["bytes"]) + where
    if values["resumed_from"]:
        yield "resumed", f"from step {values['resumed_step']:,} of {values['resumed_from']}"
    if values["sweep"]:
        given = "  ".join(f"{key}={value}" for key, value in values["sweep_values"].items())
        yield "sweep", f"{values['sweep']}: {given}"


def _waits(values: dict[str, Any], now: float) -> str:
    parts = []
    if values["requeued_because"]:
        parts.append(f"to begin again: {values['requeued_because']}")
    if values["pending_reason"]:
        parts.append(explain_reason(values["pending_reason"], values["job_id"]))
    start = values["expected_start"]
    if start is not None:
        left = f" (in {duration(start - now)})" if start > now else ""
        parts.append(f"Slurm expects to start it at {clock(start, now)}{left}")
    return "; ".join(parts) or "Slurm gives no reason yet"


def _progress(values: dict[str, Any], now: float) -> str:
    step, total = values["step"], values["of_steps"]
    text = f"step {step:,}"
    if total:
        text += f" of {total:,} ({100 * step / total:.0f}%)"
    if values["loss"] is not None:
        text += f"   loss {values['loss']:.4f}"
    if values["samples_per_s"] is not None:
        text += f"   {values['samples_per_s']:,.0f} samples/s"
    if values["state"] != "completed" and values["progress_time"] is not None:
        text += f"   {duration(now - values['progress_time'])} ago"
    return text


def _recovery(recovering: dict[str, Any], now: float) -> str:
    since = duration(now - recovering["since"])
    generation, step = recovering["generation"], recovering["from_step"]
    return f"generation {generation} goes on from step {step:,}, begun {since} ago"


def _time(values: dict[str, Any], now: float) -> str:
    parts = []
    if values["elapsed_s"]:
        parts.append(f"{duration(values['elapsed_s'])} in this life")
    to_end, to_limit = values["seconds_to_end"], values["seconds_to_limit"]
    if to_end is not None:
        parts.append(f"done in about {duration(to_end)} ({clock(now + to_end, now)})")
    if to_limit is not None:
        text = f"time limit in {duration(to_limit)} ({clock(now + to_limit, now)})"
        if to_end is not None and to_end > to_limit:
            text += ", it will be requeued"
        parts.append(text)
    return "; ".join(parts)


def _lives(values: dict[str, Any], now: float) -> str:
    text = f"submitted {clock(values['submitted'], now)}"
    if values["lives"]:
        text += f"; {counted(values['lives'], 'life')}"
        text += f", {counted(values['generations'], 'generation')}"
    if values["requeues"]:
        text += f", requeued {counted(len(values['requeues']), 'time')}"
    return text


def _saved(values: dict[str, Any], now: float) -> str:
    one = values["checkpoint"]
    if one is None:
        return "no checkpoint yet" if values["state"] != "completed" else "no checkpoint"
    size = "" if one["bytes"] is None else f", {in_bytes(one['bytes'])}"
    more = "" if one["count"] == 1 else f"; {one['count']} checkpoints"
    return f"step {one['step']:,}, {duration(now - one['time'])} ago{size}{more}"


def _ranks(ranks: list[dict[str, Any]], now: float, width: int) -> list[str]:
    """List the ranks, on a big job those first that are not well; the rest in one line."""
    shown = ranks
    if len(ranks) > _MOST_RANKS:
        unwell = [one for one in ranks if one["state"] not in _WELL]
        shown = sorted((unwell or ranks)[:_MOST_RANKS], key=lambda one: int(one["rank"]))
    cells = [["rank", "role", "host", "state", "pid", "generation", "for"]]
    for one in shown:
        since = "-"
        if one["started"] is not None and one["state"] == "running":
            since = duration(now - one["started"])
        texts = (one["name"], one["host"], one["state"], one["pid"], one["generation"])
        cells.append([str(one["rank"]), *(str(text or "-") for text in texts), since])
    lines = lay_out(cells, width, flexible=2, right=(0, 4))
    rest = [one for one in ranks if one not in shown]
    if rest:
        counts: dict[str, int] = {}
        for one in rest:
            counts[one["state"]] = counts.get(one["state"], 0) + 1
        text = ", ".join(f"{count} {state}" for state, count in counts.items())
        lines.append(f"and {text}; --json lists all {len(ranks)}")
    return lines


def _cell(value: object) -> str:
    return "-" if value in (None, "") else str(value)


def _wrapped(label: str, text: str, width: int) -> list[str]:
    """Fill lines, and keep paths whole: they are there to be copied."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=f"{label:<{_INDENT}}",
        subsequent_indent=" " * _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
