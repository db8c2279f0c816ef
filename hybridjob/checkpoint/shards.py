"""Table shards in a checkpoint: written by the servers that hold them, read by any other number.

Their files are named as hybridjob.checkpoint.shard_names says. Rows of a delta are ascending, with
their numbers in the tensor `ids`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from hybridjob.checkpoint.files import (
    Wanted,
    read_places,
    read_rows,
    read_tensors,
    write_tensors,
)
from hybridjob.checkpoint.header import Streamed
from hybridjob.checkpoint.memory import fits
from hybridjob.checkpoint.shard_names import ShardName, shard_name
from hybridjob.errors import CheckpointError, DamageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

    from hybridjob.checkpoint.entries import FileEntry
    from hybridjob.checkpoint.manifest import Manifest
    from hybridjob.tables.shard import Shard
    from hybridjob.tables.snapshot import Snapshot


@dataclass(frozen=True)
class Part:
    """What one file holds: the state of a shard at one moment. To be closed, or memory stays."""

    name: ShardName
    tensors: dict[str, Tensor | Streamed]
    snapshot: Snapshot


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
    name = ShardName("delta" if delta else "table", shard.table.name, shard.start, shard.stop)
    return Part(name, tensors, snapshot)


def save_parts(draft: Path, parts: list[Part]) -> list[FileEntry]:
    """Write a server's parts; shards without rows leave no file. Raises CheckpointError."""
    try:
        return [
            write_tensors(draft / str(part.name), part.tensors)
            for part in parts
            if part.name.stop > part.name.start
        ]
    finally:
        for part in parts:
            part.snapshot.close()


def load_shard(folder: Path, manifest: Manifest, shard: Shard) -> None:
    """Fill a shard from the files that hold its rows, reading, and checking, no other chunks.

    Raises DamageError if bytes are not what the manifest says, CheckpointError if rows, or
    optimizer state, are missing.
    """
    base = manifest.base_folder(folder)
    loaded = 0
    for entry in manifest.whole_files:
        if (name := _overlapping(entry, "table", shard)) is not None:
            loaded += _load_rows(base / entry.name, entry, name, shard)
    if loaded != shard.stop - shard.start:
        raise CheckpointError(
            f"{folder} holds {loaded} of the {shard.stop - shard.start} rows from {shard.start} on "
            f"of table {shard.table.name!r}: was num_embeddings changed?"
        )
    for entry in manifest.files:
        if _overlapping(entry, "delta", shard) is not None:
            _load_delta(folder / entry.name, entry, shard)


def _overlapping(entry: FileEntry, kind: str, shard: Shard) -> ShardName | None:
    name = shard_name(entry.name)
    if name is None or (name.kind, name.table) != (kind, shard.table.name):
        return None
    return name if max(name.start, shard.start) < min(name.stop, shard.stop) else None


def _load_rows(path: Path, entry: FileEntry, file: ShardName, shard: Shard) -> int:
    low, high = max(file.start, shard.start), min(file.stop, shard.stop)
    wanted = [
        Wanted(name, low - file.start, tensor[low - shard.start : high - shard.start])
        for name, tensor in shard.tensors.items()
    ]
    try:
        read_rows(path, wanted, entry)
    except DamageError:
        raise
    except CheckpointError as error:
        raise _unlike(path, shard, error) from error
    return high - low


def _load_delta(path: Path, entry: FileEntry, shard: Shard) -> None:
    found = read_tensors(path, entry)
    if "rows" in found and found["rows"].dtype != shard.rows.dtype:
        raise _other_type(path, shard, found["rows"].dtype)
    ids = found.get("ids", torch.empty(0, dtype=torch.int64))
    low, high = (int(torch.searchsorted(ids, bound)) for bound in (shard.start, shard.stop))
    local = ids[low:high] - shard.start
    for name, tensor in shard.tensors.items():
        if name not in found or found[name].shape[1:] != tensor.shape[1:]:
            raise _other_optimizer(shard, CheckpointError(f"{path} has no usable {name!r}"))
        tensor[local] = found[name][low:high]
    shard.mark_touched(local)


def _unlike(path: Path, shard: Shard, error: CheckpointError) -> CheckpointError:
    """Say what was changed since a file was written."""
    rows = read_places(path).get("rows")
    if rows is not None and rows.dtype != shard.rows.dtype:
        return _other_type(path, shard, rows.dtype)
    return _other_optimizer(shard, error)


def _other_type(path: Path, shard: Shard, found: torch.dtype) -> CheckpointError:
    was, wanted = (str(one).removeprefix("torch.") for one in (found, shard.rows.dtype))
    return CheckpointError(
        f"{path} holds the rows of table {shard.table.name!r} as {was}, but they are to be kept as "
        f"{wanted}: a run keeps its type. Go on with model.table_data_type = {was!r} (or data_type "
        "of the Table), or begin a new run"
    )


def _other_optimizer(shard: Shard, error: CheckpointError) -> CheckpointError:
    return CheckpointError(
        f"{error}, for table {shard.table.name!r}: was the optimizer of the tables changed?"
    )
