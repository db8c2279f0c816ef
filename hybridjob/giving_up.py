"""What rank 0's task leaves where people look, when a run has failed for good or leaves a life."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

from hybridjob.jobfolder import write_atomically
from hybridjob.lives import note_leave
from hybridjob.logs import error_line, tell, told_if_unwritable
from slurm.comment import set_comment

if TYPE_CHECKING:
    from pathlib import Path

    from hybridjob.failures import Failure
    from hybridjob.jobfolder import JobFolder


def write_failed_summary(folder: JobFolder, name: str, failure: Failure, *, requeues: int) -> None:
    """Write summary.json of a run that has failed."""
    summary = {
        "state": "failed",
        "name": name,
        "cause": str(failure),
        "detail": failure.detail,
        "generations": len(folder.generations()),
        "requeues": requeues,
    }
    with told_if_unwritable(folder.summary, f"; the run has failed: {failure}"):
        write_atomically(folder.summary, json.dumps(summary, indent=1) + "\n")


def tell_everywhere(failure: Failure, *, log: Path, name: str, job_id: str | None) -> None:
    """Make the first cause the last line of rank 0's log, and the job's comment in Slurm.

    job_id: Slurm's; None for a job that gets no comment.
    """
    with told_if_unwritable(log), log.open("a", encoding="utf-8") as file:
        file.write(error_line(name, 0, f"the run has failed: {failure}") + "\n")
    problem = None if job_id is None else set_comment(job_id, f"failed: {failure}")
    if problem is not None:
        tell(f"the job's comment could not be set: {problem}")


def tell_why_left(folder: JobFolder, *, life: int, attempt: int, warned_by: int | None) -> None:
    """Say in the job's folder why a life ends. warned_by: the signal that was heard here."""
    heard = None if warned_by is None else signal.Signals(warned_by).name
    with told_if_unwritable(folder.leaves):  # what counts has been said
        note_leave(folder, life=life, attempt=attempt, signal=heard)
