"""Parquet files as blocks of arrow tables: one block is one row group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from hybridjob.data.raw_block import RawBlock
from hybridjob.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_OPEN_FILES = 16
_FILE_KEY = b"hybridjob.file"
_BLOCK_KEY = b"hybridjob.first_block"


def origin_keys(file_index: int, first_block: int) -> dict[bytes, bytes]:
    """Say, in a file's metadata, which file its rows were read from, and its first block there.

    With them the rows of a copy are dealt to training and test as those of the original are.
    """
    return {_FILE_KEY: str(file_index).encode(), _BLOCK_KEY: str(first_block).encode()}


@dataclass(frozen=True)
class _Footer:
    """What is kept of a file's footer: the whole of it is large where there are many groups."""

    column_names: tuple[str, ...]
    group_rows: tuple[int, ...]
    file_index: int
    first_block: int


class ParquetTable:
    """Parquet files. Raises DataError if one cannot be read."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = paths
        self._footers = [_read_footer(path, number) for number, path in enumerate(paths)]
        self._groups = [
            (number, group)
            for number, footer in enumerate(self._footers)
            for group in range(len(footer.group_rows))
        ]
        # A footer is parsed when its file is opened, which may take as long as reading a group.
        self._open = lru_cache(maxsize=_OPEN_FILES)(parquet.ParquetFile)

    @property
    def num_blocks(self) -> int:
        """All files' row groups."""
        return len(self._groups)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, in the order of their numbers."""
        return self._paths

    def columns_of(self, file_index: int) -> tuple[str, ...]:
        """Name the columns of one file."""
        return self._footers[file_index].column_names

    def origin_of(self, block: int) -> tuple[int, int]:
        """Tell a block's file and its number there, as in the original if these are copies."""
        number, group = self._groups[block]
        footer = self._footers[number]
        return footer.file_index, footer.first_block + group

    def read(self, block: int, wanted: Mapping[str, Any]) -> RawBlock:
        """Read the wanted columns of a row group, in the types that the file has."""
        number, group = self._groups[block]
        path = self._paths[number]
        try:
            file = self._open(path)
            table = file.read_row_group(group, columns=list(wanted), use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"cannot read row group {group} of {path}: {error}") from error
        before = sum(self._footers[number].group_rows[:group])
        file_index, block_in_file = self.origin_of(block)
        return RawBlock(
            file_index=file_index,
            block_in_file=block_in_file,
            table=table,
            row_numbers=np.arange(table.num_rows, dtype=np.int64),
            broken=(),
            place=lambda row: f"{path}, row {before + row + 1} (row group {group})",
        )

    def estimated_rows(self) -> int:
        """Count the rows: parquet's footers tell."""
        return sum(sum(footer.group_rows) for footer in self._footers)


def _read_footer(path: Path, number: int) -> _Footer:
    try:
        metadata = parquet.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot read {path} as parquet: {error}") from error
    origin = metadata.metadata or {}
    return _Footer(
        column_names=tuple(metadata.schema.to_arrow_schema().names),
        group_rows=tuple(
            metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)
        ),
        file_index=int(origin.get(_FILE_KEY, number)),
        first_block=int(origin.get(_BLOCK_KEY, 0)),
    )
