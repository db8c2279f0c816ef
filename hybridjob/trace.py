"""What one rank did when, in the steps that the job file has traced.

torch RPC runs functions of modules: each rank of the job has its own recorder here.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Item = TypeVar("Item")


@dataclass(frozen=True)
class Span:
    """Something that one thread did. start_s: seconds since 1970, by the clock of its host."""

    name: str
    step: int
    thread: str
    start_s: float
    duration_s: float


class Recorder:
    """Keeps spans while `step` is in a window; outside of it, it costs a comparison.

    Starts are told by a clock that is never set back, and that agreed with the host's clock when
    this was made: spans of one rank nest as they did.
    """

    def __init__(self, first_step: int = 0, num_steps: int = 0) -> None:
        self.step = 0
        self._steps = range(first_step, first_step + num_steps)
        self._epoch_s = time.time() - time.perf_counter()
        self._spans: list[Span] = []

    def add(self, name: str, start: float, stop: float) -> None:
        """Keep what this thread did between two readings of time.perf_counter."""
        if self.step in self._steps:
            thread = threading.current_thread()
            label = f"{thread.name} {thread.native_id}"
            start_s = self._epoch_s + start
            self._spans.append(Span(name, self.step, label, start_s, stop - start))

    def take(self) -> list[Span]:
        """Give the spans, and begin anew."""
        spans, self._spans = self._spans, []
        return spans


recorder = Recorder()


def prepare(first_step: int, num_steps: int) -> None:
    """Have this process's rank record these steps, before it does any."""
    global recorder  # noqa: PLW0603 - torch RPC reaches it only through its module
    recorder = Recorder(first_step, num_steps)


def take_spans() -> list[Span]:
    """Run on any rank: give what it has recorded."""
    return recorder.take()


def traced(name: str, items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items, and keep how long the making of each took."""
    iterator = iter(items)
    while True:
        start = time.perf_counter()
        try:
            item = next(iterator)
        except StopIteration:
            return
        recorder.add(name, start, time.perf_counter())
        yield item
