"""A trainer's reports to the master, and what they are made of."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hybridjob import mailbox, remote
from hybridjob.phases import Phases

if TYPE_CHECKING:
    from hybridjob.messages import Finished, Left, Progress, Scores
    from hybridjob.rendezvous import World


class Reporter:
    """Sends reports; at most one is on its way while training goes on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._on_its_way: remote.Pending | None = None

    def send(self, message: Progress | Scores) -> None:
        """Send what all trainers know alike: the first one does it for all."""
        if self._world.index != 0:
            return
        self._wait()
        self._on_its_way = remote.start_call(self._world, 0, mailbox.report, message)

    def send_last(self, message: Finished | Left) -> None:
        """Send this trainer's last word, after all that went before."""
        self._wait()
        remote.call(self._world, 0, mailbox.report, message)

    def _wait(self) -> None:
        if self._on_its_way is not None:
            self._on_its_way.wait()


class Interval:
    """What happened since the last report."""

    def __init__(self) -> None:
        self.phases = Phases()
        self.loss_sum, self.samples = 0.0, 0
        self._start = time.perf_counter()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the last report."""
        return time.perf_counter() - self._start

    def add(self, loss_sum: float, samples: int) -> None:
        """Count one step: this trainer's summed loss, all trainers' samples."""
        self.loss_sum += loss_sum
        self.samples += samples
