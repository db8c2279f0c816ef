"""The trace of all ranks in one file, for ui.perfetto.dev and chrome://tracing.

The format is Chrome's Trace Event Format: complete events ("X"), times in microseconds, a process
for each rank.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hybridjob import remote
from hybridjob.jobfolder import write_atomically
from hybridjob.logs import told_if_unwritable
from hybridjob.trace import take_spans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hybridjob.config import Training
    from hybridjob.jobfolder import JobFolder
    from hybridjob.rendezvous import World
    from hybridjob.trace import Span


class TraceFile:
    """The master's part of a trace: it asks all ranks for their spans once, and writes."""

    def __init__(
        self, training: Training, world: World, folder: JobFolder, generation: str
    ) -> None:
        self._world, self._folder, self._generation = world, folder, generation
        self._end = training.trace_from + training.trace_steps
        self._is_due = training.trace_steps > 0

    def reached(self, step: int) -> None:
        """Write the trace if its steps are over, their gradients in the tables."""
        if step > self._end:
            self.finish()

    def finish(self) -> None:
        """Write the trace, of what there is, unless it is written."""
        if not self._is_due:
            return
        self._is_due = False
        world = self._world
        ranks = range(1, world.layout.num_tasks)
        spans = dict(zip(ranks, remote.call_each(world, ranks, take_spans), strict=True))
        if any(spans.values()):
            names = {rank: f"{world.name_of(rank)} on {world.hosts[rank]}" for rank in ranks}
            self._write({"traceEvents": trace_events(names, spans)})

    def _write(self, trace: dict[str, Any]) -> None:
        path = self._path()
        with told_if_unwritable(path, "; training goes on"):
            write_atomically(path, json.dumps(trace) + "\n")

    def _path(self) -> Path:
        """Give trace.json to the first generation that traces, a name of its own to another."""
        path = self._folder.trace
        if not path.exists():
            return path
        return path.with_name(f"{path.stem}.gen-{self._generation}{path.suffix}")


def trace_events(
    names: Mapping[int, str], spans: Mapping[int, Sequence[Span]]
) -> list[dict[str, Any]]:
    """Write spans of ranks as events of Chrome's format; the earliest one begins at 0."""
    begin_s = min((span.start_s for own in spans.values() for span in own), default=0.0)
    events = []
    for rank, own in spans.items():
        threads = {name: number for number, name in enumerate(sorted({one.thread for one in own}))}
        events.append(_name("process_name", names[rank], rank))
        events += [_name("thread_name", name, rank, tid) for name, tid in threads.items()]
        events += [
            {
                "ph": "X", "name": span.name, "pid": rank, "tid": threads[span.thread],
                "ts": round((span.start_s - begin_s) * 1e6, 3),
                "dur": round(span.duration_s * 1e6, 3), "args": {"step": span.step},
            }
            for span in own
        ]  # fmt: skip
    return events


def _name(kind: str, name: str, rank: int, thread: int = 0) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": rank, "tid": thread, "args": {"name": name}}
