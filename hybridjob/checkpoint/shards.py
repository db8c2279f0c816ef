"""Table shards in a checkpoint: written by the servers that hold them, read by any other number.

The file `table-<name>.<start>-<stop>.safetensors` holds rows start <= row < stop with their
optimizer state. The file `delta-...` of the same form holds only those that were touched since the
base, ascending, with their numbers in the tensor `ids`.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from hybridjob.checkpoint.files import Wanted, read_rows, read_tensors, write_tensors
from hybridjob.checkpoint.header import Streamed
from hybridjob.checkpoint.memory import fits
from hybridjob.errors import CheckpointError, DamageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

    from hybridjob.checkpoint.entries import FileEntry
    from hybridjob.checkpoint.manifest import Manifest
    from hybridjob.tables.shard import Shard
    from hybridjob.tables.snapshot import Snapshot

_NAME = re.compile(
    r"^(?P<kind>table|delta)-(?P<table>.+)\.(?P<start>\d+)-(?P<stop>\d+)\.safetensors$"
)


@dataclass(frozen=True)
class Part:
    """What one file holds: the state of a shard at one moment. To be closed, or memory stays."""

    kind: str
    table: str
    start: int
    stop: int
    tensors: dict[str, Tensor | Streamed]
    snapshot: Snapshot

    @property
    def file_name(self) -> str:
        """Name the file."""
        return f"{self.kind}-{self.table}.{self.start}-{self.stop}.safetensors"


@dataclass(frozen=True)
class ShardFile:
    """A file that holds rows, as its name tells."""

    entry: FileEntry
    kind: str
    table: str
    start: int
    stop: int


def part_of(shard: Shard, *, delta: bool, has_room: Callable[[int], bool] = fits) -> Part:
    """Take a shard's state: its touched rows, or all."""
    snapshot = shard.snapshot(delta=delta, has_room=has_room)
    tensors: dict[str, Tensor | Streamed] = {
        name: Streamed(
            tensor.dtype,
            (snapshot.num_rows, *tensor.shape[1:]),
            functools.partial(snapshot.read, name),
        )
        for name, tensor in shard.tensors.items()
    }
    if snapshot.ids is not None:
        tensors["ids"] = snapshot.ids + shard.start
    kind = "delta" if delta else "table"
    return Part(kind, shard.table.name, shard.start, shard.stop, tensors, snapshot)


def save_parts(draft: Path, parts: list[Part]) -> list[FileEntry]:
    """Write a server's parts; shards without rows leave no file. Raises CheckpointError."""
    try:
        return [
            write_tensors(draft / part.file_name, part.tensors)
            for part in parts
            if part.stop > part.start
        ]
    finally:
        for part in parts:
            part.snapshot.close()


def shard_file(entry: FileEntry) -> ShardFile | None:
    """Read a file's name; None if it holds no rows of a table."""
    match = _NAME.match(entry.name)
    if match is None:
        return None
    return ShardFile(entry, match["kind"], match["table"], int(match["start"]), int(match["stop"]))


def load_shard(folder: Path, manifest: Manifest, shard: Shard) -> None:
    """Fill a shard from the files that hold its rows, reading, and checking, no other chunks.

    Raises DamageError if bytes are not what the manifest says, CheckpointError if rows, or
    optimizer state, are missing.
    """
    base = folder if manifest.base is None else folder.with_name(manifest.base)
    loaded = 0
    for entry in manifest.files if manifest.base is None else manifest.base_files:
        if (file := _overlapping(entry, "table", shard)) is not None:
            loaded += _load_rows(base, file, shard)
    if loaded != shard.stop - shard.start:
        raise CheckpointError(
            f"{folder} holds {loaded} of the {shard.stop - shard.start} rows from {shard.start} on "
            f"of table {shard.table.name!r}: was num_embeddings changed?"
        )
    for entry in manifest.files:
        if (file := _overlapping(entry, "delta", shard)) is not None:
            _load_delta(folder, file, shard)


def _overlapping(entry: FileEntry, kind: str, shard: Shard) -> ShardFile | None:
    file = shard_file(entry)
    if file is None or (file.kind, file.table) != (kind, shard.table.name):
        return None
    return file if max(file.start, shard.start) < min(file.stop, shard.stop) else None


def _load_rows(folder: Path, file: ShardFile, shard: Shard) -> int:
    low, high = max(file.start, shard.start), min(file.stop, shard.stop)
    wanted = [
        Wanted(name, low - file.start, tensor[low - shard.start : high - shard.start])
        for name, tensor in shard.tensors.items()
    ]
    try:
        read_rows(folder / file.entry.name, wanted, file.entry)
    except DamageError:
        raise
    except CheckpointError as error:
        raise _other_optimizer(shard, error) from error
    return high - low


def _load_delta(folder: Path, file: ShardFile, shard: Shard) -> None:
    found = read_tensors(folder / file.entry.name, file.entry)
    ids = found.get("ids", torch.empty(0, dtype=torch.int64))
    low, high = (int(torch.searchsorted(ids, bound)) for bound in (shard.start, shard.stop))
    local = ids[low:high] - shard.start
    for name, tensor in shard.tensors.items():
        if name not in found or found[name].shape[1:] != tensor.shape[1:]:
            path = folder / file.entry.name
            raise _other_optimizer(shard, CheckpointError(f"{path} has no usable {name!r}"))
        tensor[local] = found[name][low:high]
    shard.mark_touched(local)


def _other_optimizer(shard: Shard, error: CheckpointError) -> CheckpointError:
    return CheckpointError(
        f"{error}, for table {shard.table.name!r}: was the optimizer of the tables changed?"
    )
