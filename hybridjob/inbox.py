"""Where a rank's main thread waits for messages that arrive by RPC, never for ever."""

from __future__ import annotations

import queue
from typing import Generic, TypeVar

from hybridjob.errors import PeerError

T = TypeVar("T")


class Inbox(Generic[T]):
    """Messages in the order of arrival."""

    def __init__(self) -> None:
        self._messages: queue.Queue[T] = queue.Queue()

    def put(self, message: T) -> None:
        """Leave a message. Any thread may."""
        self._messages.put(message)

    def get(self, *, timeout_s: float, what: str) -> T:
        """Take the oldest message. Raises PeerError that says what was waited for."""
        message = self.poll(timeout_s=timeout_s)
        if message is None:
            raise PeerError(f"waited {timeout_s:.0f} s for {what}")
        return message

    def poll(self, *, timeout_s: float) -> T | None:
        """Take the oldest message; None if there is none in this time."""
        try:
            return self._messages.get(timeout=timeout_s)
        except queue.Empty:
            return None
