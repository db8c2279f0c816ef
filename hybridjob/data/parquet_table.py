"""Parquet files as blocks of arrow tables: one block is one row group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from hybridjob.data.raw_block import RawBlock
from hybridjob.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class ParquetTable:
    """Parquet files. Raises DataError if one cannot be read."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = paths
        self._metadata = [_metadata(path) for path in paths]
        self._groups = [
            (file_index, group)
            for file_index, metadata in enumerate(self._metadata)
            for group in range(metadata.num_row_groups)
        ]

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
        return tuple(self._metadata[file_index].schema.to_arrow_schema().names)

    def read(self, block: int, wanted: Mapping[str, Any]) -> RawBlock:
        """Read the wanted columns of a row group, in the types that the file has."""
        file_index, group = self._groups[block]
        path = self._paths[file_index]
        try:
            file = parquet.ParquetFile(path)
            table = file.read_row_group(group, columns=list(wanted), use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"cannot read row group {group} of {path}: {error}") from error
        before = sum(
            self._metadata[file_index].row_group(earlier).num_rows for earlier in range(group)
        )
        return RawBlock(
            file_index=file_index,
            block_in_file=group,
            table=table,
            row_numbers=np.arange(table.num_rows, dtype=np.int64),
            broken=(),
            place=lambda row: f"{path}, row {before + row + 1} (row group {group})",
        )

    def estimated_rows(self) -> int:
        """Count the rows: parquet's footers tell."""
        return sum(metadata.num_rows for metadata in self._metadata)


def _metadata(path: Path) -> Any:
    try:
        return parquet.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot read {path} as parquet: {error}") from error
