"""The names of the files that hold rows of tables. Imports no torch.

`table-<name>.<start>-<stop>.safetensors` holds rows start <= row < stop with their optimizer state,
`delta-...` of the same form only those that were touched since the base.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = re.compile(
    r"^(?P<kind>table|delta)-(?P<table>.+)\.(?P<start>\d+)-(?P<stop>\d+)\.safetensors$"
)


@dataclass(frozen=True)
class ShardName:
    """What a name tells. kind: table or delta."""

    kind: str
    table: str
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.table}.{self.start}-{self.stop}.safetensors"


def shard_name(file_name: str) -> ShardName | None:
    """Read a file's name; None if it holds no rows of a table."""
    match = _NAME.match(file_name)
    if match is None:
        return None
    return ShardName(match["kind"], match["table"], int(match["start"]), int(match["stop"]))
