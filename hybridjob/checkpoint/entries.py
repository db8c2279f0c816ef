"""What a manifest says of a file. Imports no torch: a login node verifies checkpoints."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hybridjob.errors import DamageError

if TYPE_CHECKING:
    from pathlib import Path

CHUNK_BYTES = 64 << 20
"""Each chunk of a file has a hash of its own, so that several readers share its verification."""


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """What the manifest says of one file. chunks: sha256 of every CHUNK_BYTES, the last shorter."""

    name: str
    size: int
    chunks: list[str]


def describe(path: Path) -> FileEntry:
    """Measure and hash a file."""
    buffer = memoryview(bytearray(min(CHUNK_BYTES, max(1, path.stat().st_size))))
    chunks, size = [], 0
    with path.open("rb", buffering=0) as file:
        while count := _fill(file, buffer):
            chunks.append(hashlib.sha256(buffer[:count]).hexdigest())
            size += count
    return FileEntry(name=path.name, size=size, chunks=chunks)


def check_file(folder: Path, entry: FileEntry) -> None:
    """Read every byte of a file. Raises DamageError if it is not what the manifest says."""
    path = folder / entry.name
    check_size(path, entry)
    try:
        found = describe(path)
    except OSError as error:
        raise DamageError(f"cannot read {path}: {error.strerror}") from error
    for number, (one, expected) in enumerate(zip(found.chunks, entry.chunks, strict=True)):
        if one != expected:
            raise damaged(path, number, one, expected)


def check_size(path: Path, entry: FileEntry) -> None:
    """Raise DamageError if a file is missing or has another size than the manifest says."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DamageError(f"cannot read {path}: {error.strerror}") from error
    if size != entry.size:
        raise DamageError(
            f"{path} is damaged: it has {size} bytes, but the manifest says {entry.size}"
        )


def damaged(path: Path, number: int, found: str, expected: str) -> DamageError:
    """Say which chunk is not what it was."""
    first = number * CHUNK_BYTES
    return DamageError(
        f"{path} is damaged: its bytes from {first} on have sha256 {found[:12]}, but the manifest "
        f"says {expected[:12]}"
    )


def _fill(file: object, buffer: memoryview) -> int:
    """Read until the buffer is full or the file ends; a raw read may give less than asked."""
    count = 0
    while count < len(buffer):
        read: int = file.readinto(buffer[count:])  # type: ignore[attr-defined]
        if not read:
            break
        count += read
    return count
