"""One file of a checkpoint: safetensors, synced, hashed."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetensors import safe_open
from safetensors.torch import save_file

from hybridjob.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """What the manifest says of one file."""

    name: str
    size: int
    sha256: str


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> FileEntry:
    """Write tensors to a file that is on the disk when this returns. Raises CheckpointError."""
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
        with path.open("rb") as file:
            os.fsync(file.fileno())
        return describe(path)
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"cannot write {path}: {error}") from error


def describe(path: Path) -> FileEntry:
    """Measure and hash a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
        size = file.tell()
    return FileEntry(name=path.name, size=size, sha256=digest.hexdigest())


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read all tensors of a file."""
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict


def read_rows(path: Path, name: str, start: int, stop: int) -> Tensor:
    """Read rows start <= row < stop of one tensor, and nothing else of the file."""
    with safe_open(path, framework="pt") as file:
        rows: Tensor = file.get_slice(name)[start:stop]
    return rows
