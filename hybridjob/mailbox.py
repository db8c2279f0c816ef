"""The messages that master and trainers leave for each other, and the functions that leave them.

torch RPC runs functions of modules: each rank of the job has its own copy of this one's inboxes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hybridjob.inbox import Inbox

if TYPE_CHECKING:
    from hybridjob.messages import Begin, Report

begins: Inbox[Begin] = Inbox()
"""At a trainer: the master's word to begin."""
saves: Inbox[str] = Inbox()
"""At a trainer: the folder to save to."""
resumes: Inbox[int] = Inbox()
"""At a trainer: the step whose checkpoint is durable."""
stops: Inbox[str] = Inbox()
"""At a trainer or a server: the master's word to leave."""
reports: Inbox[Report] = Inbox()
"""At the master: what the trainers report."""


def begin(message: Begin) -> None:
    """Run on a trainer: the tables are there, train."""
    begins.put(message)


def save(draft: str) -> None:
    """Run on a trainer: write your files of a checkpoint into this folder."""
    saves.put(draft)


def resume(step: int) -> None:
    """Run on a trainer: the checkpoint is durable, go on."""
    resumes.put(step)


def stop() -> None:
    """Run on a trainer or a server: all is written, leave."""
    stops.put("stop")


def report(message: Report) -> None:
    """Run on the master: take a report."""
    reports.put(message)
