"""Which runs there are, and which one a person means."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hybridjob.errors import RunError
from hybridjob.jobfolder import JobFolder
from slurm.whereabouts import folder_of_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm.query import Runner

_NAME = re.compile(r'^name = "([^"]*)"', re.MULTILINE)
_DEEP = 2  # runs/<name>/<job id>


@dataclass(frozen=True, kw_only=True)
class Run:
    """One job's folder. name: of the run. submitted: when its folder was made, or its note says."""

    job_id: str
    name: str
    folder: JobFolder
    submitted: float


@dataclass(frozen=True)
class Found:
    """The runs below a folder, newest first, and the folders that could not be read."""

    runs: list[Run]
    unreadable: list[str]


def all_runs(root: Path) -> Found:
    """Find the runs in `root`, such as ./runs: job folders, or folders of job folders."""
    runs: list[Run] = []
    unreadable: list[str] = []
    _search(root.absolute(), _DEEP, runs, unreadable)
    return Found(sorted(runs, key=lambda run: run.submitted, reverse=True), unreadable)


def find_run(text: str | None, root: Path, *, run: Runner | None = None) -> Run:
    """Give the run that a person means: the newest one where `text` fits several.

    text: a job's id, a run's name, a path of a job's folder or of a run's, None for the newest of
    all. run: asks Slurm for a job that is not in `root`. Raises RunError with what is there.
    """
    if text is not None and (direct := _by_path(Path(text))) is not None:
        return direct
    found = all_runs(root)
    if text is None:
        if not found.runs:
            raise RunError(f"there is no run in {root}{_and(found.unreadable)}. {_HINT}")
        return found.runs[0]
    for one in found.runs:
        if text in (one.job_id, one.name, one.folder.path.parent.name):
            return one
    if text.isdigit() and run is not None and (place := folder_of_output(text, run=run)):
        elsewhere = _as_run(Path(place) / text)
        if elsewhere is not None:
            return elsewhere
    raise RunError(_unknown(text, root, found))


_HINT = "Go to where you submitted, or give --runs DIR or the path of a job's folder"


def _by_path(path: Path) -> Run | None:
    """Take a path of a job's folder, or the newest job in a run's folder."""
    try:
        if not path.is_dir():
            return None
    except OSError:
        return None
    if (one := _as_run(path.absolute())) is not None:
        return one
    if not os.access(path, os.R_OK | os.X_OK):
        raise RunError(f"cannot read {path}: Permission denied. A job's folder is its owner's")
    inside = all_runs(path.absolute())
    if inside.unreadable and not inside.runs:
        raise RunError(inside.unreadable[0])
    return inside.runs[0] if inside.runs else None


def _search(folder: Path, depth: int, runs: list[Run], unreadable: list[str]) -> None:
    try:
        entries = [entry for entry in os.scandir(folder) if entry.name[0] != "."]
    except FileNotFoundError:
        return
    except OSError as error:
        unreadable.append(f"cannot read {folder}: {error.strerror}")
        return
    for entry in entries:
        if not entry.is_dir():
            continue
        path = Path(entry.path)
        try:
            one = _as_run(path)
        except RunError as error:
            unreadable.append(str(error))
            continue
        if one is not None:
            runs.append(one)
        elif depth > 1 and not entry.name.isdigit():
            _search(path, depth - 1, runs, unreadable)


def _as_run(path: Path) -> Run | None:
    """Read what tells a job's folder from any other; None for another."""
    if not path.name.isdigit():
        return None
    folder = JobFolder(path)
    try:
        names = set(os.listdir(path))  # noqa: PTH208 - names are all that counts
        marks = {"job.toml", f"{path.name}_submitted.pkl", f"{path.name}_submission.sh"}
        if not names & marks:
            return None
        first = next(one for one in ("origin.json", *sorted(marks)) if one in names)
        submitted = (path / first).stat().st_mtime
        return Run(job_id=path.name, name=_name(folder), folder=folder, submitted=submitted)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from error


def _name(folder: JobFolder) -> str:
    """Read a run's name: the job file's first key. Parsing all of it is for who needs it."""
    try:
        with folder.job_file.open(encoding="utf-8", errors="replace") as file:
            match = _NAME.search(file.read(4096))
    except FileNotFoundError:
        match = None
    return match[1] if match else folder.path.parent.name


def _unknown(text: str, root: Path, found: Found) -> str:
    names = list(dict.fromkeys(name for one in found.runs for name in (one.name, one.job_id)))
    close = difflib.get_close_matches(text, names, n=3, cutoff=0.6)
    if close:
        return f"there is no run {text!r} in {root}. Did you mean {' or '.join(close)}?"
    known = ", ".join(list(dict.fromkeys(one.name for one in found.runs))[:5])
    there = f"Newest there: {known}" if known else "None is there"
    return f"there is no run {text!r} in {root}{_and(found.unreadable)}. {there}. {_HINT}"


def _and(unreadable: Sequence[str]) -> str:
    return f" ({len(unreadable)} of its folders cannot be read)" if unreadable else ""
