"""Ranks notice when another is gone, and end instead of waiting for ever."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from hybridjob.errors import PeerError
from hybridjob.remote import Pending, call, start_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hybridjob.rendezvous import World

INTERVAL_S = 5.0


def _alive() -> bool:
    return True


class PeerWatch:
    """The master asks every rank now and then whether it lives, without waiting for the answers."""

    interval_s = 1.0

    def __init__(self, world: World, ranks: Iterable[int]) -> None:
        self._world, self._ranks = world, tuple(ranks)
        self._asked: dict[int, Pending] = {}
        self._next = time.monotonic()

    def check(self) -> bool:
        """Raise PeerError naming the first rank that is gone or is silent beyond the deadline.

        Returns whether it was time to ask them again.
        """
        for rank, pending in list(self._asked.items()):
            if pending.done():
                del self._asked[rank]
                pending.wait()
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + INTERVAL_S
        for rank in self._ranks:
            if rank not in self._asked:
                self._asked[rank] = start_call(self._world, rank, _alive)
        return True


class MasterWatch:
    """Every other rank asks the master, from a thread: its main one may be in a collective."""

    def __init__(self, world: World, on_loss: Callable[[PeerError], None]) -> None:
        self._world, self._on_loss = world, on_loss
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="master-watch", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more: the run is over."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL_S):
            try:
                call(self._world, 0, _alive)
            except PeerError as error:
                if not self._stopped.is_set():
                    self._on_loss(PeerError(f"the master is gone: {error}"))
                return
