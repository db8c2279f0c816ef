"""What a job's folder knows, without asking anyone."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hybridjob.checkpoint.manifest import all_checkpoints, read_manifest, step_of
from hybridjob.errors import CheckpointError, ConfigError, RunError
from hybridjob.failures import Failure, read_failure
from hybridjob.jobfile import load_job
from hybridjob.jobfolder import read_json, write_atomically
from hybridjob.lives import Leave, Life, read_leaves, read_lives
from hybridjob.origin import Origin, read_origin
from hybridjob.ranks import RankRecord, read_ranks
from hybridjob.runs.progress import Progress, read_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hybridjob.config import Job
    from hybridjob.jobfolder import JobFolder
    from hybridjob.runs.find import Run


@dataclass(frozen=True, kw_only=True)
class SavedCheckpoint:
    """One checkpoint. num_bytes: of its own files; None if its manifest cannot be read."""

    step: int
    time: float
    num_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Brief:
    """The little that a list of many runs shows, which is quick to read."""

    run: Run
    local: bool
    summary: dict[str, Any] | None
    exit_code: int | None
    cancelled: Literal["asked", "seen"] | None
    """Whether `hybridjob cancel` was asked to end it, and has seen its end."""
    num_lives: int
    last_sign: float
    """When the newest life began or reported; 0.0 if there was none."""
    progress: Progress | None
    origin: Origin | None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that one run's folder says.

    job: None where there is no job file, or none that is understood: job_problem says why.
    tables: what the servers hold, and since when: what the master writes once they are made.
    """

    brief: Brief
    job: Job | None
    job_problem: str | None
    lives: list[Life]
    leaves: list[Leave]
    generations: int
    failures: list[tuple[str, Failure]]
    checkpoints: list[SavedCheckpoint]
    ranks: list[RankRecord]
    tables: dict[str, Any] = field(default_factory=dict)

    @property
    def newest_start(self) -> RankRecord | None:
        """The rank whose worker began last: it is of the newest generation."""
        return max(self.ranks, key=lambda one: one.started, default=None)


@contextlib.contextmanager
def _reading(folder: JobFolder) -> Iterator[None]:
    """Tell what cannot be read as a RunError."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot read {error.filename or folder.path}: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise RunError(f"a file in {folder.path} is damaged: {error}") from error


def read_brief(run: Run) -> Brief:
    """Read what a list shows of a run. Raises RunError if the folder cannot be read."""
    folder = run.folder
    with _reading(folder):
        lives = read_lives(folder)
        began = lives[-1].time if lives else 0.0
        progress = read_progress(folder.metrics, since=began)
        return Brief(
            run=run,
            local=(folder.path / f"{run.job_id}_state.json").exists()
            or (folder.path / f"{run.job_id}_controller.log").exists(),
            summary=_summary(folder),
            exit_code=_exit_code(run),
            cancelled=_cancelled(folder),
            num_lives=len({one.life for one in lives}),
            last_sign=max(began, progress.time if progress else 0.0),
            progress=progress,
            origin=read_origin(folder),
        )


def _summary(folder: JobFolder) -> dict[str, Any] | None:
    """Read how the run ended; what is damaged says nothing, and the state comes from elsewhere."""
    try:
        return read_json(folder.summary)
    except ValueError:
        return None


def read_facts(run: Run) -> Facts:
    """Read all that a run's folder says. Raises RunError if it cannot be read."""
    brief, folder = read_brief(run), run.folder
    with _reading(folder):
        ranks = read_ranks(folder)
        job, job_problem = _job(folder)
        return Facts(
            brief=brief,
            job=job,
            job_problem=job_problem,
            lives=read_lives(folder),
            leaves=read_leaves(folder),
            generations=len(folder.generations() | {one.generation for one in ranks}),
            failures=_failures(folder),
            checkpoints=[_saved(path) for path in all_checkpoints(folder.checkpoints)],
            ranks=ranks,
            tables=read_json(folder.tables) or {},
        )


def note_cancelled(run: Run, *, seen: bool) -> None:
    """Leave word that the run was cancelled: Slurm forgets it within minutes or days.

    seen: it is known to have ended.
    """
    note = {"time": round(time.time(), 3), "seen": seen}
    write_atomically(run.folder.cancelled, json.dumps(note) + "\n")


def _job(folder: JobFolder) -> tuple[Job | None, str | None]:
    """Read the job file, or tell what is wrong; it may be of another version of hybridjob."""
    if not folder.job_file.exists():
        return None, None
    try:
        return load_job(folder.job_file), None
    except ConfigError as error:
        return None, str(error)


def _cancelled(folder: JobFolder) -> Literal["asked", "seen"] | None:
    note = read_json(folder.cancelled)
    if note is None:
        return None
    return "seen" if note.get("seen") else "asked"


def _failures(folder: JobFolder) -> list[tuple[str, Failure]]:
    """Give the generations that have failed with their first causes, oldest first."""
    paths = (folder.path / "failures").glob("gen-*.json")
    found = [(path, read_failure(path)) for path in sorted(paths, key=lambda p: p.stat().st_mtime)]
    return [(path.stem.removeprefix("gen-"), one) for path, one in found if one is not None]


def _saved(path: Any) -> SavedCheckpoint:
    try:
        size = sum(file.size for file in read_manifest(path).files)
    except CheckpointError:
        size = None
    return SavedCheckpoint(step=step_of(path), time=path.stat().st_mtime, num_bytes=size)


def _exit_code(run: Run) -> int | None:
    """Give how the batch script's step ended; None where it wrote nothing."""
    try:
        path = run.folder.path / f"{run.job_id}_exit_code"
        text = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() else None
