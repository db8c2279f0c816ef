"""A new job that goes on from another one's newest checkpoint."""

from __future__ import annotations

import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hybridjob.checkpoint.manifest import MANIFEST, all_files, newest_valid, read_manifest, step_of
from hybridjob.errors import LaunchError, RunError
from hybridjob.jobfile import load_job
from hybridjob.runs.state import RunState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hybridjob.config import Job
    from hybridjob.runs.find import Run
    from hybridjob.runs.outside import Seen


@dataclass(frozen=True, kw_only=True)
class Resumption:
    """What to submit. damage: what is wrong with newer checkpoints that were passed over."""

    job: Job
    checkpoint: Path
    step: int
    damage: Sequence[str]


def plan_resumption(run: Run, seen: Seen, overrides: Sequence[str]) -> Resumption:
    """Choose the checkpoint, every byte of it checked, and read the job file with what changes.

    Raises RunError if the run goes on, or has nothing to go on from; ConfigError for an override.
    """
    if not seen.state.is_over:
        why = f"is {seen.state.value}" if seen.problem is None else f"may still run: {seen.problem}"
        raise RunError(
            f"job {run.job_id} of {run.name} {why}. Two jobs would go on from one checkpoint: "
            f"end it first by hybridjob cancel {run.job_id}"
        )
    if seen.state is RunState.COMPLETED and not overrides:
        raise RunError(
            f"job {run.job_id} of {run.name} is complete: say what it is to do more, such as "
            "training.epochs=8"
        )
    if not run.folder.job_file.exists():
        raise RunError(f"{run.folder.path} has no job.toml: submit the job file itself")
    job = load_job(run.folder.job_file, overrides)
    checkpoint, damage = newest_valid(run.folder.checkpoints)
    if checkpoint is None:
        raise RunError(
            f"job {run.job_id} of {run.name} has no checkpoint: submit the job file itself"
        )
    return Resumption(job=job, checkpoint=checkpoint, step=step_of(checkpoint), damage=damage)


def stage(resumption: Resumption) -> Path:
    """Bring the checkpoint, and the base that it needs, into a hidden folder of the run folder.

    By hard links, or copies where the file system has none. Raises LaunchError.
    """
    place = resumption.job.run_path / f".resumed-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        place.mkdir(mode=0o700, parents=True)
        checkpoint = resumption.checkpoint
        manifest = read_manifest(checkpoint)
        folders = {checkpoint} | {folder for folder, _ in all_files(checkpoint, manifest)}
        for folder in sorted(folders):
            _bring(folder, place / folder.name)
    except OSError as error:
        shutil.rmtree(place, ignore_errors=True)
        raise LaunchError(
            f"cannot bring {resumption.checkpoint} to {place}: {error.strerror}"
        ) from error
    return place


def _bring(source: Path, target: Path) -> None:
    """Link or copy what the manifest names, and the manifest."""
    target.mkdir()
    for name in [MANIFEST, *(entry.name for entry in read_manifest(source).files)]:
        try:
            os.link(source / name, target / name)
        except OSError:  # another file system, or one without links
            shutil.copy2(source / name, target / name)
