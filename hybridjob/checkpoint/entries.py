"""What a manifest says of a file. Imports no torch: a login node verifies checkpoints."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """What the manifest says of one file."""

    name: str
    size: int
    sha256: str


def describe(path: Path) -> FileEntry:
    """Measure and hash a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
        size = file.tell()
    return FileEntry(name=path.name, size=size, sha256=digest.hexdigest())
