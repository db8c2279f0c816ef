"""A trainer's files in a checkpoint: the dense layers, once, and each one's random generators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hybridjob import random_state
from hybridjob.checkpoint.files import read_tensors, write_tensors
from hybridjob.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

    from hybridjob.checkpoint.entries import FileEntry
    from hybridjob.checkpoint.manifest import Manifest
    from hybridjob.dense import DenseModel

_DENSE_FILE = "dense.safetensors"


def save_trainer(draft: Path, index: int, dense: DenseModel) -> list[FileEntry]:
    """Write what only this trainer has, and, if it is the first, what all have alike."""
    files = [write_tensors(draft / _own_file(index), random_state.capture(dense.device))]
    if index == 0:
        files.append(write_tensors(draft / _DENSE_FILE, dense.tensors()))
    return files


def load_trainer(folder: Path, manifest: Manifest, index: int, dense: DenseModel) -> None:
    """Take over the dense layers and this trainer's random generators."""
    dense.load(read_tensors(folder / _DENSE_FILE))
    if index >= manifest.trainers:
        raise CheckpointError(f"{folder} has no trainer {index}, only {manifest.trainers}")
    random_state.restore(read_tensors(folder / _own_file(index)), dense.device)


def _own_file(index: int) -> str:
    return f"trainer-{index:03d}.safetensors"
