"""The manifest of a checkpoint, its publication, and the choice of the newest that verifies.

A base holds all rows of the tables; a delta those that were touched since its base, which its
manifest names with the files that it needs from there. So a restore reads one base and one delta.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from hybridjob.checkpoint.entries import FileEntry, check_file, check_size
from hybridjob.errors import CheckpointError, DamageError
from hybridjob.jobfolder import sync_folder, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FORMAT = 2
MANIFEST = "manifest.json"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a checkpoint holds.

    tables: name -> [rows, columns]. positions: per trainer, where its reading goes on. base: the
    folder, beside this one, that base_files lie in; None if this is a base. deltas: how many
    there have been since the base, this one counted. sharding: training.sharding, which decides
    which rows are whose id's; manifests from before there was a choice do not name it.
    """

    step: int
    epoch: int
    samples: int
    servers: int
    trainers: int
    tables: dict[str, list[int]]
    positions: list[dict[str, Any]]
    files: list[FileEntry] = field(default_factory=list)
    base: str | None = None
    base_files: list[FileEntry] = field(default_factory=list)
    deltas: int = 0
    sharding: str = "range"
    format: int = FORMAT

    def base_folder(self, folder: Path) -> Path:
        """Give the folder of this checkpoint's base, which is `folder`, its own, if it is one."""
        return folder if self.base is None else folder.with_name(self.base)

    @property
    def whole_files(self) -> list[FileEntry]:
        """The files of the base, which hold all rows of the tables."""
        return self.files if self.base is None else self.base_files


def folder_of(checkpoints: Path, step: int) -> Path:
    """Name the folder of a step."""
    return checkpoints / f"step-{step:08d}"


def draft_of(checkpoints: Path, step: int, writer: str) -> Path:
    """Name the hidden folder in which a writer, a generation, writes a checkpoint.

    Two writers at once, one of them not yet ended, never write one folder.
    """
    return checkpoints / f".step-{step:08d}.{writer}.draft"


def begin_draft(draft: Path) -> Path:
    """Make an empty hidden folder; what a failed attempt left in it is removed."""
    try:
        if draft.exists():
            shutil.rmtree(draft)
        draft.mkdir(parents=True)
    except OSError as error:
        raise CheckpointError(f"cannot make {draft}: {error.strerror}") from error
    return draft


def remove_draft(draft: Path) -> None:
    """Remove what a failed attempt has left; what cannot be removed is left to `remove_old`."""
    shutil.rmtree(draft, ignore_errors=True)


def publish(draft: Path, manifest: Manifest) -> Path:
    """Write the manifest and give the checkpoint its name. Durable when this returns."""
    checkpoints = draft.parent
    final = folder_of(checkpoints, manifest.step)
    try:
        write_atomically(draft / MANIFEST, _render(asdict(manifest)))
        if final.exists():  # a life before this one got as far, and what it wrote was passed over
            set_aside(final)
        draft.replace(final)
        sync_folder(checkpoints)
    except OSError as error:
        raise CheckpointError(f"cannot publish {final}: {error.strerror}") from error
    return final


def set_aside(folder: Path) -> None:
    """Remove a checkpoint; renamed first, so that a half removed one never passes for one."""
    doomed = folder.with_name(f".{folder.name}.removed")
    if doomed.exists():
        shutil.rmtree(doomed)
    folder.rename(doomed)
    shutil.rmtree(doomed)


def read_manifest(folder: Path) -> Manifest:
    """Read a manifest. Raises CheckpointError if it is missing, damaged or not of this format."""
    path = folder / MANIFEST
    try:
        text = path.read_text(encoding="utf-8")
        values: dict[str, Any] = dict(json.loads(text))
    except (OSError, ValueError, TypeError) as error:
        raise DamageError(f"cannot read {path}: {error}") from error
    if values.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {values.get('format')}, but this version of hybridjob reads only "
            f"{FORMAT}: go on with the version that wrote it"
        )
    if text != _render(values):
        raise DamageError(f"{path} is damaged: it is not what its own sha256 says")
    del values["sha256"]
    for key in ("files", "base_files"):
        values[key] = [FileEntry(**entry) for entry in values[key]]
    return Manifest(**values)


def check_sharding(folder: Path, manifest: Manifest, sharding: str) -> None:
    """Raise CheckpointError if a checkpoint has its rows in another order than is wanted."""
    if manifest.sharding != sharding:
        raise CheckpointError(
            f"{folder} was written with training.sharding = {manifest.sharding!r}, but the job "
            f"file says {sharding!r}, which has ids in other rows: set training.sharding = "
            f"{manifest.sharding!r}, or begin a new run"
        )


def _render(values: dict[str, Any]) -> str:
    """Write a manifest with its own hash, the same text for the same values."""
    hashed = {key: value for key, value in values.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()
    return json.dumps({**hashed, "sha256": digest}, indent=1) + "\n"


def verify(folder: Path) -> Manifest:
    """Check every byte of a checkpoint, and of what it needs from its base.

    Raises DamageError naming the damaged file, CheckpointError if it is of another format.
    """
    manifest = read_manifest(folder)
    for where, entry in all_files(folder, manifest):
        check_file(where, entry)
    return manifest


def all_files(folder: Path, manifest: Manifest) -> list[tuple[Path, FileEntry]]:
    """List all files that a checkpoint needs, each with the folder that it lies in."""
    base = manifest.base_folder(folder)
    own = [(folder, entry) for entry in manifest.files]
    return own + [(base, entry) for entry in manifest.base_files]


def verify_sizes(folder: Path) -> Manifest:
    """Check that all files are there and have their sizes, which reads none of them.

    Raises as `verify` does.
    """
    manifest = read_manifest(folder)
    for where, entry in all_files(folder, manifest):
        check_size(where / entry.name, entry)
    return manifest


def newest_valid(
    checkpoints: Path, check: Callable[[Path], Manifest] = verify
) -> tuple[Path | None, list[str]]:
    """Find the newest checkpoint that verifies.

    Returns it, None if there has never been one, and what is wrong with the newer ones. Raises
    CheckpointError if there are some and none verifies: starting from zero would lose the work.
    """
    damage: list[str] = []
    for folder in all_checkpoints(checkpoints)[::-1]:
        try:
            check(folder)
        except CheckpointError as error:
            damage.append(str(error))
            continue
        return folder, damage
    if damage:
        raise none_verifies(damage)
    return None, damage


def none_verifies(damage: list[str]) -> CheckpointError:
    """Say that there are checkpoints, and that none is good."""
    return CheckpointError(
        "no checkpoint verifies; set checkpoint.restart_from_zero = true, or remove the folder, to "
        "start from zero: " + "; ".join(damage)
    )


def all_checkpoints(checkpoints: Path) -> list[Path]:
    """List the folders of all published checkpoints, oldest first."""
    named = (one for one in checkpoints.glob("step-*") if one.name.removeprefix("step-").isdigit())
    return sorted(named, key=step_of)


def step_of(folder: Path) -> int:
    """Give the step that a checkpoint's folder is named after."""
    return int(folder.name.removeprefix("step-"))
