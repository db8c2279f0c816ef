"""What both executors write before a job starts: its folder and its pickle, for the user only."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from submitit.core import utils

from slurm.errors import SubmissionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm.component import Component

_PRIVATE = 0o700


def folder_before_job(folder: Path) -> Path:
    """Return the closest folder whose name does not need the job's id."""
    return Path(utils.JobPaths.get_first_id_independent_folder(folder))


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it. Raises SubmissionError naming it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SubmissionError(
            f"the folder {folder} cannot be made: {error.strerror}. Choose one that you may write"
        ) from error


def make_job_folder(folder: Path) -> None:
    """Make the job's own folder so that only the user can open it: pickles are read from it."""
    make_folder(folder)
    folder.chmod(_PRIVATE)


def move_contents(source: Path | None, folder: Path) -> None:
    """Move what lies in a folder, on the same file system, into the job's; None: nothing."""
    if source is None:
        return
    for path in sorted(source.iterdir()):
        path.replace(folder / path.name)
    source.rmdir()


def new_private_file(folder: Path, suffix: str) -> Path:
    """Make an empty file under a new name that only the user can read."""
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=".submission_", suffix=suffix)
    except OSError as error:
        raise SubmissionError(
            f"{folder} cannot be written: {error.strerror}. Choose a folder that you may write"
        ) from error
    os.close(handle)
    return Path(name)


def minutes_of(seconds: int | None) -> int:
    """Turn a limit into submitit's whole minutes; no limit is a year, as it needs a number."""
    return 365 * 24 * 60 if seconds is None else max(1, seconds // 60)


def count_tasks(components: Sequence[Component]) -> int:
    """Add up the tasks of all components."""
    return sum(component.num_tasks for component in components)
