"""One file of a checkpoint: safetensors, synced to the disk, every chunk hashed in the same pass.

Threads hash while the calling one reads or writes; all release the interpreter's lock.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from hybridjob.checkpoint.entries import CHUNK_BYTES, FileEntry, check_chunk, check_size, hash_of
from hybridjob.checkpoint.header import (
    Streamed,
    head_bytes,
    in_order,
    parse_header,
    render_header,
)
from hybridjob.errors import CheckpointError, DamageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from torch import Tensor

    from hybridjob.checkpoint.header import Place

_PIECE_BYTES = 8 << 20
_STREAMED_BYTES = 2 << 20  # training waits while so many are copied
_MOST_THREADS = 4


@dataclass(frozen=True)
class Wanted:
    """Rows start <= row < start + len(target) of a tensor in a file, and where they shall go."""

    name: str
    start: int
    target: Tensor


# Writing ------------------------------------------------------------------------------------------


def write_tensors(path: Path, tensors: Mapping[str, Tensor | Streamed]) -> FileEntry:
    """Write tensors to a file that is on the disk when this returns. Raises CheckpointError."""
    size = 0
    try:
        with path.open("wb", buffering=0) as file, _threads() as hashing:
            hashes: list[Future[str]] = []
            for chunk in _chunks(tensors):
                hashes.append(hashing.submit(hash_of, chunk))
                for piece in chunk:
                    _write_all(file.fileno(), piece)
                    size += len(piece)
            os.fsync(file.fileno())
            chunks = [one.result() for one in hashes]
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from error
    return FileEntry(name=path.name, size=size, chunks=chunks)


def _threads() -> ThreadPoolExecutor:
    """Make threads that read and hash chunks; the system does both without Python's lock."""
    cores = len(os.sched_getaffinity(0))
    return ThreadPoolExecutor(max(1, min(_MOST_THREADS, cores)), thread_name_prefix="chunks")


def _chunks(tensors: Mapping[str, Tensor | Streamed]) -> Iterator[list[memoryview]]:
    """Give the file's bytes chunk by chunk."""
    chunk: list[memoryview] = []
    size = 0
    for piece in _pieces(tensors):
        chunk.append(piece)
        size += len(piece)
        if size % CHUNK_BYTES == 0:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _pieces(tensors: Mapping[str, Tensor | Streamed]) -> Iterator[memoryview]:
    """Cut the file's bytes so that no piece lies in two chunks."""
    offset = 0
    for part in _parts(tensors):
        done = 0
        while done < len(part):
            count = min(_PIECE_BYTES, len(part) - done, CHUNK_BYTES - offset % CHUNK_BYTES)
            yield part[done : done + count]
            done += count
            offset += count


def _parts(tensors: Mapping[str, Tensor | Streamed]) -> Iterator[memoryview]:
    yield memoryview(render_header(tensors))
    for name in in_order(tensors):
        tensor = tensors[name]
        if isinstance(tensor, torch.Tensor):
            yield _bytes_of(tensor.detach().cpu().contiguous())
            continue
        num_rows = tensor.shape[0]
        step = max(1, _STREAMED_BYTES * num_rows // max(1, tensor.nbytes))
        for start in range(0, num_rows, step):
            yield _bytes_of(tensor.read(start, min(start + step, num_rows)))


def _write_all(descriptor: int, piece: memoryview) -> None:
    while piece:
        piece = piece[os.write(descriptor, piece) :]


def _bytes_of(tensor: Tensor) -> memoryview:
    """Give the memory of a contiguous tensor on the CPU."""
    if tensor.numel() == 0:
        return memoryview(b"")
    return tensor.reshape(-1).view(torch.uint8).numpy().data


# Reading ------------------------------------------------------------------------------------------


def read_tensors(path: Path, entry: FileEntry | None = None) -> dict[str, Tensor]:
    """Read all tensors of a file, checking every byte if the manifest's entry is given."""
    places = read_places(path, entry)
    found = {name: torch.empty(place.shape, dtype=place.dtype) for name, place in places.items()}
    read_rows(path, [Wanted(name, 0, tensor) for name, tensor in found.items()], entry)
    return found


def read_places(path: Path, entry: FileEntry | None = None) -> dict[str, Place]:
    """Read where the tensors of a file lie. Raises DamageError if it cannot be read."""
    try:
        with path.open("rb") as file:
            first = file.read(8)
            return parse_header(first + file.read(head_bytes(first) - len(first)))
    except OSError as error:
        raise DamageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        if entry is not None:
            check_size(path, entry)
        raise DamageError(f"{path} is damaged: its header is none ({error})") from error


def read_rows(path: Path, wanted: Iterable[Wanted], entry: FileEntry | None = None) -> None:
    """Read rows into memory, and nothing of the file's other chunks.

    With the manifest's entry, every chunk that holds any of them is checked, and the first one,
    which holds the header. Raises DamageError, and CheckpointError if a tensor is not there or is
    of another shape.
    """
    if entry is not None:
        check_size(path, entry)
    places = read_places(path, entry)
    spans = sorted(
        (span for one in wanted if (span := _span(path, places, one, entry))),
        key=lambda span: span[0],
    )
    try:
        if entry is None:
            with path.open("rb", buffering=0) as file:
                for start, memory in spans:
                    _read_all(file.fileno(), memory, start)
        else:
            _read_checked(path, spans, entry)
    except OSError as error:
        raise DamageError(f"cannot read {path}: {error.strerror or error}") from error


def _span(
    path: Path, places: Mapping[str, Place], wanted: Wanted, entry: FileEntry | None
) -> tuple[int, memoryview] | None:
    place, target = places.get(wanted.name), wanted.target
    fits = (
        place is not None
        and place.dtype == target.dtype
        and len(place.shape) == target.dim()
        and tuple(place.shape[1:]) == tuple(target.shape[1:])
        and (target.dim() == 0 or wanted.start + target.shape[0] <= place.shape[0])
    )
    if place is None or not fits:
        if entry is not None:  # a damaged header may lie about it
            _read_checked(path, [], entry)
        raise CheckpointError(
            f"{path} has no usable {wanted.name!r}: wanted {tuple(target.shape)} from "
            f"{wanted.start} on, found {None if place is None else place.shape}"
        )
    memory = _bytes_of(target)
    if not memory:
        return None
    row_bytes = len(memory) // target.shape[0] if target.dim() else 0
    return place.start + wanted.start * row_bytes, memory


def _read_checked(path: Path, spans: list[tuple[int, memoryview]], entry: FileEntry) -> None:
    """Read all spans, and check their chunks and the first; a thread hashes what it has read."""
    numbers = {0} if entry.chunks else set()
    for start, memory in spans:
        numbers |= set(range(start // CHUNK_BYTES, (start + len(memory) - 1) // CHUNK_BYTES + 1))

    def check(number: int) -> None:
        # Opened for each: of one file that is read in several places the system reads none ahead.
        with path.open("rb", buffering=0) as file:
            descriptor = file.fileno()
            os.posix_fadvise(descriptor, number * CHUNK_BYTES, CHUNK_BYTES, os.POSIX_FADV_WILLNEED)
            found = hash_of(_read_chunk(descriptor, number, entry.size, spans))
        check_chunk(path, entry, number, found)

    with _threads() as threads:
        for _ in threads.map(check, sorted(numbers)):
            pass


def _read_chunk(
    descriptor: int, number: int, size: int, spans: list[tuple[int, memoryview]]
) -> list[memoryview]:
    """Read one chunk: what is wanted to its place, the rest, to be hashed alone, to new memory."""
    at, end = number * CHUNK_BYTES, min((number + 1) * CHUNK_BYTES, size)
    pieces = []
    for start, memory in spans:
        low, high = max(start, at), min(start + len(memory), end)
        if low >= high:
            continue
        if low > at:
            pieces.append(_read_all(descriptor, memoryview(bytearray(low - at)), at))
        pieces.append(_read_all(descriptor, memory[low - start : high - start], low))
        at = high
    if at < end:
        pieces.append(_read_all(descriptor, memoryview(bytearray(end - at)), at))
    return pieces


def _read_all(descriptor: int, memory: memoryview, offset: int) -> memoryview:
    done = 0
    while done < len(memory):
        count = os.preadv(descriptor, [memory[done:]], offset + done)
        if count == 0:
            raise OSError("it ends too soon")
        done += count
    return memory
