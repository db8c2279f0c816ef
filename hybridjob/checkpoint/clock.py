"""When the next checkpoint is due."""

from __future__ import annotations

import time


class SaveClock:
    """Rings once, so many minutes after it was started last; never if they are 0."""

    def __init__(self, minutes: float) -> None:
        self._limit_s = 60 * minutes
        self.restart()

    def restart(self) -> None:
        """Count from now."""
        self._started = time.monotonic()

    def rings(self) -> bool:
        """Tell whether the time is over, and if so count anew."""
        if not 0 < self._limit_s < time.monotonic() - self._started:
            return False
        self.restart()
        return True
