"""What a manifest says of a file. Imports no torch: a login node verifies checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xxhash import xxh3_128

from hybridjob.errors import DamageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CHUNK_BYTES = 64 << 20
"""Each chunk of a file has a hash of its own, so that several readers share its verification."""


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """What the manifest says of one file. chunks: hash of every CHUNK_BYTES, the last shorter."""

    name: str
    size: int
    chunks: list[str]


def hash_of(pieces: Iterable[memoryview]) -> str:
    """Hash the bytes of one chunk: XXH3, 128 bits, which is as fast as the memory.

    It finds what disks, networks and people do to bytes. It is no seal against an attacker, who
    could write a manifest as well.
    """
    digest = xxh3_128()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def describe(path: Path) -> FileEntry:
    """Measure and hash a file."""
    buffer = memoryview(bytearray(min(CHUNK_BYTES, max(1, path.stat().st_size))))
    chunks, size = [], 0
    with path.open("rb", buffering=0) as file:
        while count := _fill(file, buffer):
            chunks.append(hash_of([buffer[:count]]))
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
    for number, (one, _) in enumerate(zip(found.chunks, entry.chunks, strict=True)):
        check_chunk(path, entry, number, one)


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


def check_chunk(path: Path, entry: FileEntry, number: int, found: str) -> None:
    """Raise DamageError if a chunk's hash is not the one that the manifest says."""
    expected = entry.chunks[number]
    if found == expected:
        return
    first = number * CHUNK_BYTES
    raise DamageError(
        f"{path} is damaged: its bytes from {first} on hash to {found[:12]}, but the manifest "
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
