"""The manifest of a checkpoint, and the choice of the newest one that verifies."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from hybridjob.checkpoint.entries import FileEntry, describe
from hybridjob.errors import CheckpointError
from hybridjob.jobfolder import sync_folder, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = 1
_MANIFEST = "manifest.json"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a checkpoint holds.

    tables: name -> [rows, columns]. positions: per trainer, where its reading goes on.
    """

    step: int
    epoch: int
    samples: int
    servers: int
    trainers: int
    tables: dict[str, list[int]]
    positions: list[dict[str, Any]]
    files: list[FileEntry] = field(default_factory=list)
    format: int = FORMAT


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


def publish(draft: Path, manifest: Manifest) -> Path:
    """Write the manifest and give the checkpoint its name. Durable when this returns."""
    checkpoints = draft.parent
    final = folder_of(checkpoints, manifest.step)
    try:
        write_atomically(draft / _MANIFEST, _render(asdict(manifest)))
        if final.exists():  # a life before this one got as far and wrote the same
            shutil.rmtree(final)
        draft.replace(final)
        sync_folder(checkpoints)
    except OSError as error:
        raise CheckpointError(f"cannot publish {final}: {error.strerror}") from error
    return final


def remove_old(checkpoints: Path, keep_last: int) -> None:
    """Remove all but the newest checkpoints, and what failed attempts have left."""
    for leftover in (*checkpoints.glob(".step-*.draft"), *checkpoints.glob(".step-*.removed")):
        shutil.rmtree(leftover)
    for folder in all_checkpoints(checkpoints)[:-keep_last]:
        # Renamed first, so that a half removed checkpoint never passes for one.
        doomed = folder.with_name(f".{folder.name}.removed")
        folder.rename(doomed)
        shutil.rmtree(doomed)


def read_manifest(folder: Path) -> Manifest:
    """Read a manifest. Raises CheckpointError if it is missing, damaged or not of this format."""
    path = folder / _MANIFEST
    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(text)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"cannot read {path}: {error}") from error
    if values.get("format") != FORMAT:
        raise CheckpointError(f"{path} has format {values.get('format')}, this is for {FORMAT}")
    if text != _render(values):
        raise CheckpointError(f"{path} is damaged: it is not what its own sha256 says")
    del values["sha256"]
    files = [FileEntry(**entry) for entry in values.pop("files")]
    return Manifest(**values, files=files)


def _render(values: dict[str, Any]) -> str:
    """Write a manifest with its own hash, the same text for the same values."""
    hashed = {key: value for key, value in values.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()
    return json.dumps({**hashed, "sha256": digest}, indent=1) + "\n"


def verify(folder: Path) -> Manifest:
    """Check every byte of a checkpoint. Raises CheckpointError naming the damaged file."""
    manifest = read_manifest(folder)
    for entry in manifest.files:
        path = folder / entry.name
        try:
            found = describe(path)
        except OSError as error:
            raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
        if found != entry:
            raise CheckpointError(
                f"{path} is damaged: {found.size} bytes, sha256 {found.sha256[:12]}, but the "
                f"manifest says {entry.size} bytes, {entry.sha256[:12]}"
            )
    return manifest


def newest_valid(checkpoints: Path) -> tuple[Path | None, list[str]]:
    """Find the newest checkpoint that verifies.

    Returns it, None if there has never been one, and what is wrong with the newer ones. Raises
    CheckpointError if there are some and none verifies: starting from zero would lose the work.
    """
    damage: list[str] = []
    folders = all_checkpoints(checkpoints)[::-1]
    for folder in folders:
        try:
            verify(folder)
        except CheckpointError as error:
            damage.append(str(error))
            continue
        return folder, damage
    if damage:
        raise CheckpointError(
            "no checkpoint verifies; remove the folder to start from zero: " + "; ".join(damage)
        )
    return None, damage


def all_checkpoints(checkpoints: Path) -> list[Path]:
    """List the folders of all published checkpoints, oldest first."""
    return sorted(checkpoints.glob("step-*"), key=lambda folder: folder.name)
