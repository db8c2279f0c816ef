"""One file of a checkpoint: safetensors, synced to the disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from safetensors import safe_open
from safetensors.torch import save_file

from hybridjob.checkpoint.entries import FileEntry, describe
from hybridjob.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> FileEntry:
    """Write tensors to a file that is on the disk when this returns. Raises CheckpointError."""
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
        with path.open("rb") as file:
            os.fsync(file.fileno())
        return describe(path)
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"cannot write {path}: {error}") from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read all tensors of a file."""
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict


def read_rows(path: Path, name: str, start: int, stop: int) -> Tensor:
    """Read rows start <= row < stop of one tensor, and nothing else of the file."""
    with safe_open(path, framework="pt") as file:
        rows: Tensor = file.get_slice(name)[start:stop]
    return rows
