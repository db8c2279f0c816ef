"""How the tables lie on the servers, as the newest checkpoint tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hybridjob.checkpoint.manifest import all_checkpoints, read_manifest
from hybridjob.checkpoint.shard_names import shard_name
from hybridjob.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

    from hybridjob.checkpoint.manifest import Manifest


@dataclass(frozen=True, kw_only=True)
class Balance:
    """Bytes of rows and their optimizer state: table -> one number a server."""

    step: int
    tables: dict[str, list[int]]

    @property
    def totals(self) -> list[int]:
        """Bytes of each server."""
        return [sum(column) for column in zip(*self.tables.values(), strict=True)]


def read_balance(checkpoints: Path) -> Balance | None:
    """Read the newest checkpoint's manifest; None if there is no readable one."""
    for folder in all_checkpoints(checkpoints)[::-1]:
        try:
            balance = balance_of(read_manifest(folder))
        except CheckpointError:
            continue  # `hybridjob checkpoint verify` is there to judge it
        if balance is not None:
            return balance
    return None


def balance_of(manifest: Manifest) -> Balance | None:
    """Add up the files of each server: its rows are the next range of every table."""
    ranges: dict[str, list[tuple[int, int]]] = {name: [] for name in manifest.tables}
    for file in manifest.whole_files:
        name = shard_name(file.name)
        if name is not None and name.table in ranges:
            ranges[name.table].append((name.start, file.size))
    tables = {name: [size for _, size in sorted(parts)] for name, parts in ranges.items()}
    if not tables or any(len(sizes) != manifest.servers for sizes in tables.values()):
        return None  # the base was written by another number of servers
    return Balance(step=manifest.step, tables=tables)
