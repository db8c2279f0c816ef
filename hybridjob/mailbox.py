"""The messages that master and trainers leave for each other, and the functions that leave them.

torch RPC runs functions of modules: each rank of the job has its own copy of this one's inboxes.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from hybridjob.inbox import Inbox

if TYPE_CHECKING:
    from hybridjob.checkpoint.order import SaveOrder
    from hybridjob.messages import Begin, Report

begins: Inbox[Begin] = Inbox()
"""At a trainer: the master's word to begin."""
saves: Inbox[SaveOrder | bool] = Inbox()
"""At a trainer: what to save, False if nothing."""
resumes: Inbox[bool] = Inbox()
"""At a trainer: go on."""
leaving = threading.Event()
"""At a trainer: it was asked to save and leave."""
stops: Inbox[bool] = Inbox()
"""At a trainer or a server: the master's word to end, and whether the run is complete."""
reports: Inbox[Report] = Inbox()
"""At the master: what the trainers report."""


def begin(message: Begin) -> None:
    """Run on a trainer: the tables are there, train."""
    begins.put(message)


def save(order: SaveOrder | None) -> None:
    """Run on a trainer: write your files of a checkpoint, or none: go on."""
    saves.put(order or False)


def resume() -> None:
    """Run on a trainer: go on; your gradients no longer reach the checkpoint."""
    resumes.put(True)


def leave() -> None:
    """Run on a trainer: save at the next step and end this life."""
    leaving.set()


def stop(complete: bool) -> None:  # noqa: FBT001 - it travels as a positional argument
    """Run on a trainer or a server: all is written, end."""
    stops.put(complete)


def report(message: Report) -> None:
    """Run on the master: take a report."""
    reports.put(message)
