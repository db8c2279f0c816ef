"""Threads of a server for kernels that release Python's lock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Workers:
    """Runs independent pieces of work on so many threads, the caller's being one."""

    def __init__(self, num_threads: int) -> None:
        self.num_threads = num_threads
        self._pool = ThreadPoolExecutor(max(1, num_threads - 1), "kernels")

    def run(self, work: Sequence[Callable[[], object]]) -> None:
        """Run all; raises the first error."""
        if self.num_threads == 1 or len(work) == 1:
            for one in work:
                one()
            return
        pieces = iter(work)  # an iterator of a list hands out each piece once, under Python's lock

        def drain() -> None:
            for one in pieces:
                one()

        helpers = [self._pool.submit(drain) for _ in range(min(self.num_threads, len(work)) - 1)]
        drain()
        for helper in helpers:
            helper.result()

    def ranges(self, count: int, least: int) -> list[tuple[int, int]]:
        """Cut 0 .. count - 1 into one range a thread, none much smaller than `least`."""
        parts = max(1, min(self.num_threads, count // least))
        return [(count * i // parts, count * (i + 1) // parts) for i in range(parts)]
