"""Where the time of a step goes."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from hybridjob import trace

if TYPE_CHECKING:
    from collections.abc import Iterator


class Phases:
    """Seconds spent in each named phase since they were last taken, by any number of threads."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time of the block to a phase, and have it traced."""
        start = time.perf_counter()
        try:
            yield
        finally:
            stop = time.perf_counter()
            self.add(name, stop - start)
            trace.recorder.add(name, start, stop)

    def add(self, name: str, seconds: float) -> None:
        """Add to a phase what was measured elsewhere."""
        with self._lock:
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def take(self) -> dict[str, float]:
        """Give phase -> seconds, and begin anew."""
        with self._lock:
            seconds, self._seconds = self._seconds, {}
        return seconds
