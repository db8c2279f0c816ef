"""Table shards in a checkpoint: written by the servers that hold them, read by any other number.

The file `table-<name>.<start>-<stop>.safetensors` holds rows start <= row < stop with their
optimizer state.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hybridjob.checkpoint.files import read_rows, write_tensors
from hybridjob.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

    from hybridjob.checkpoint.entries import FileEntry
    from hybridjob.tables.shard import Shard

_NAME = re.compile(r"^table-(?P<table>.+)\.(?P<start>\d+)-(?P<stop>\d+)\.safetensors$")


def save_shards(draft: Path, shards: list[Shard]) -> list[FileEntry]:
    """Write a server's shards; those without rows leave no file."""
    return [
        write_tensors(
            draft / f"table-{shard.table.name}.{shard.start}-{shard.stop}.safetensors",
            shard.tensors,
        )
        for shard in shards
        if shard.stop > shard.start
    ]


def load_shard(folder: Path, shard: Shard) -> None:
    """Fill a shard from the files that hold its rows, reading no other rows.

    Raises CheckpointError if rows, or optimizer state, are missing.
    """
    loaded = 0
    for path in folder.glob("table-*.safetensors"):
        match = _NAME.match(path.name)
        if match is None or match["table"] != shard.table.name:
            continue
        first, end = int(match["start"]), int(match["stop"])
        low, high = max(first, shard.start), min(end, shard.stop)
        if low >= high:
            continue
        for name, tensor in shard.tensors.items():
            try:
                part = read_rows(path, name, low - first, high - first)
            except Exception as error:
                raise CheckpointError(
                    f"{path} has no usable {name!r} for table {shard.table.name!r} ({error}): was "
                    "the optimizer of the tables changed?"
                ) from error
            tensor[low - shard.start : high - shard.start] = part
        loaded += high - low
    if loaded != shard.stop - shard.start:
        raise CheckpointError(
            f"{folder} holds {loaded} of the {shard.stop - shard.start} rows from {shard.start} on "
            f"of table {shard.table.name!r}: was num_embeddings changed?"
        )
