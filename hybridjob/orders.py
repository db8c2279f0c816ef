"""What a task may ask of its worker while it works: to leave, in order or at once.

The words come over standard input and are taken by a thread: the main one may be deep in a
collective, deaf to signals.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from hybridjob import mailbox, remote
from hybridjob.assignment import LEAVE
from hybridjob.errors import PeerError
from hybridjob.logs import log_event

if TYPE_CHECKING:
    from hybridjob.rendezvous import World

logger = logging.getLogger(__name__)
_PR_SET_PDEATHSIG = 1


class Orders:
    """Takes the task's words. `world` is to be set as soon as all ranks have met."""

    def __init__(self) -> None:
        self._world: World | None = None
        self._asked = threading.Event()
        self._thread = threading.Thread(target=self._run, name="orders", daemon=True)

    @property
    def world(self) -> World | None:
        """All ranks, once they have met."""
        return self._world

    @world.setter
    def world(self, world: World) -> None:
        self._world = world
        if self._asked.is_set():
            self._pass_on(world)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def _run(self) -> None:
        for line in sys.stdin:
            if line.strip() == LEAVE and not self._asked.is_set():
                self._asked.set()
                log_event(logger, "asked to save and leave")
                if self._world is not None:
                    self._pass_on(self._world)

    def _pass_on(self, world: World) -> None:
        """Tell the first trainer; all trainers hear of it before their next step."""
        try:
            remote.call(world, world.layout.trainer_ranks[0], mailbox.leave)
        except PeerError as error:
            log_event(logger, f"could not pass on that we leave: {error}", logging.WARNING)


def die_with(parent: int) -> None:
    """Have the system kill this process when its task ends, however that ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)
