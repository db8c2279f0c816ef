"""Run an iterator ahead in a thread."""

from __future__ import annotations

import threading
from contextlib import closing
from queue import SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

Item = TypeVar("Item")


class _End:
    """What the thread puts last: the source's error, or none."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Producer(Generic[Item]):
    def __init__(self, source: Iterable[Item], depth: int) -> None:
        self.items: SimpleQueue[Item | _End] = SimpleQueue()
        self.slots = threading.Semaphore(depth)
        self._source = source
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread: after the item, if any, that it is making."""
        self._stopped.set()
        self.slots.release()
        self._thread.join()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._produce()
        except BaseException as caught:  # noqa: BLE001 - raised again where the items are taken
            error = caught
        self.items.put(_End(error))

    def _produce(self) -> None:
        iterator = iter(self._source)
        try:
            while True:
                self.slots.acquire()
                if self._stopped.is_set():
                    return
                try:
                    item = next(iterator)
                except StopIteration:
                    return
                self.items.put(item)
        finally:
            # A generator's own clean-up must run now, not whenever it is collected.
            if (close := getattr(iterator, "close", None)) is not None:
                close()


def prefetched(source: Iterable[Item], depth: int = 2) -> Generator[Item, None, None]:
    """Yield the source's items in order, up to depth of them made ahead by a thread.

    The thread starts with the first item asked for, and ends with the source, or when the
    generator is closed or dropped. An error of the source is raised at its place in the order.
    """
    if depth < 1:
        raise ValueError(f"depth is {depth}, but must be at least 1")
    return _drain(source, depth)


def _drain(source: Iterable[Item], depth: int) -> Generator[Item, None, None]:
    with closing(_Producer(source, depth)) as producer:
        while not isinstance(item := producer.items.get(), _End):
            producer.slots.release()
            yield item
        if item.error is not None:
            raise item.error
