"""A new job that goes on from another one's newest checkpoint."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hybridjob.checkpoint.manifest import (
    MANIFEST,
    all_checkpoints,
    all_files,
    check_sharding,
    newest_valid,
    read_manifest,
    step_of,
    verify_sizes,
)
from hybridjob.errors import CheckpointError, LaunchError, RunError
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
    trainers_before: int
    damage: Sequence[str]


def plan_resumption(run: Run, seen: Seen, overrides: Sequence[str]) -> Resumption:
    """Choose the newest checkpoint that is all there, and read the job file with what changes.

    Its bytes are checked by the servers when they read them: there may be terabytes.
    Raises RunError if the run goes on, or has nothing to go on from; ConfigError for an override;
    CheckpointError for another sharding.
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
    try:
        checkpoint, damage = newest_valid(run.folder.checkpoints, verify_sizes)
    except CheckpointError as error:
        raise RunError(
            f"none of the checkpoints of job {run.job_id} of {run.name} can be used: submit the "
            f"job file itself, to begin at step 0. {error}"
        ) from error
    if checkpoint is None:
        raise RunError(
            f"job {run.job_id} of {run.name} has no checkpoint: submit the job file itself"
        )
    manifest = read_manifest(checkpoint)
    check_sharding(checkpoint, manifest, job.training.sharding)
    return Resumption(
        job=job,
        checkpoint=checkpoint,
        step=step_of(checkpoint),
        trainers_before=manifest.trainers,
        damage=damage,
    )


def stage(resumption: Resumption) -> Path:
    """Bring the checkpoint, and what it needs, into a hidden folder of the run folder.

    By hard links, and then older ones as well, for the case that this one is damaged; by copies
    where the file system has no links. Raises LaunchError.
    """
    place = resumption.job.run_path / f".resumed-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        place.mkdir(mode=0o700, parents=True)
        newest = resumption.checkpoint
        needed = {folder for folder, _ in all_files(newest, read_manifest(newest))} | {newest}
        linked = [_bring(folder, place / folder.name) for folder in sorted(needed)]
        if all(linked):
            for folder in _others(newest, needed):
                _bring(folder, place / folder.name)
    except OSError as error:
        shutil.rmtree(place, ignore_errors=True)
        raise LaunchError(
            f"cannot bring {resumption.checkpoint} to {place}: {error.strerror}"
        ) from error
    return place


def _others(newest: Path, needed: set[Path]) -> list[Path]:
    """List the older checkpoints whose manifest can be read."""
    others = []
    for folder in all_checkpoints(newest.parent):
        if folder not in needed and step_of(folder) < step_of(newest):
            with contextlib.suppress(CheckpointError):
                read_manifest(folder)
                others.append(folder)
    return others


def _bring(source: Path, target: Path) -> bool:
    """Link or copy what the manifest names, and the manifest. Returns whether links were made."""
    target.mkdir()
    linked = True
    for name in [MANIFEST, *(entry.name for entry in read_manifest(source).files)]:
        try:
            os.link(source / name, target / name)
        except OSError:  # another file system, or one without links
            shutil.copy2(source / name, target / name)
            linked = False
    return linked
