"""Encoded blocks to parquet files: one row group a block.

A bad row that is skipped stays, with an empty label, so that the rows behind it keep their numbers
and it is counted again when it is read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyarrow import parquet

from hybridjob.data.converted_columns import ConvertedColumns
from hybridjob.data.faults import Faults
from hybridjob.data.parquet_table import origin_keys
from hybridjob.data.rows import Bag, Rows, concatenate, take
from hybridjob.data.source import BadRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from hybridjob.data.config import DataConfig
    from hybridjob.data.encoder import Encoder
    from hybridjob.data.raw_block import RawBlock, RawTable

# A footer grows with the file's row groups, and is parsed as a whole.
_BLOCKS_PER_FILE = 256


class Written(NamedTuple):
    """Rows that were written, and how many of them are bad."""

    rows: int
    bad: int

    def plus(self, other: Written) -> Written:
        """Add another's."""
        return Written(self.rows + other.rows, self.bad + other.bad)


@dataclass(frozen=True)
class Part:
    """Consecutive blocks of one file of the original, which go into one file.

    file_index, first_block: where the first of them is in the original.
    """

    blocks: range
    file_index: int
    first_block: int

    @property
    def file_name(self) -> str:
        """Name the part's file: sorted by name, files are in the original's order."""
        return f"{self.blocks.start:09}.parquet"


def parts_of(table: RawTable) -> list[Part]:
    """Cut a table's blocks into parts."""
    origins = [table.origin_of(block) for block in range(table.num_blocks)]
    starts = [
        block
        for block, (file_index, number) in enumerate(origins)
        if number % _BLOCKS_PER_FILE == 0 or file_index != origins[block - 1][0]
    ]
    return [
        Part(range(start, stop), *origins[start])
        for start, stop in pairwise([*starts, len(origins)])
    ]


class PartWriter:
    """Writes parts of one table. cardinalities: feature -> number of ids."""

    def __init__(
        self,
        table: RawTable,
        encoder: Encoder,
        config: DataConfig,
        cardinalities: Mapping[str, int],
    ) -> None:
        self._table = table
        self._encoder = encoder
        self._columns = ConvertedColumns(config, cardinalities)
        self._bad_rows = BadRows(skip=config.on_bad_row == "skip")

    def write(self, path: Path, part: Part) -> Iterator[Written]:
        """Write a part to path; say after each block what it held."""
        writer = None
        try:
            for block in part.blocks:
                raw = self._table.read(block, self._encoder.wanted)
                rows, bad = self._all_rows(raw)
                lists = self._encoder.features_of_bags(raw.table)
                table = self._columns.table(rows, bad, lists)
                if writer is None:
                    keys = origin_keys(part.file_index, part.first_block)
                    schema = table.schema.with_metadata(keys)
                    writer = parquet.ParquetWriter(path, schema, compression="none")
                # Also a block without rows is a row group: blocks keep their numbers.
                writer.write_table(table, row_group_size=max(1, len(rows)))
                yield Written(len(rows), int(bad.sum()))
        finally:
            if writer is not None:
                writer.close()
        _sync(path)

    def _all_rows(self, raw: RawBlock) -> tuple[Rows, NDArray[np.bool_]]:
        """Encode a block: its n rows, broken ones too, and which are bad; those are blank."""
        if raw.broken:
            self._bad_rows.report(raw, *raw.broken[0])
        faults = Faults(raw.table.num_rows)
        rows = self._encoder.encode(raw.table, faults)
        if faults.first is not None:
            _, column, text = faults.first
            number = int(raw.row_numbers[faults.first.row])
            self._bad_rows.report(raw, number, f"column {column!r}: {text}")
        good = np.flatnonzero(~faults.mask)
        bad = np.ones(len(rows) + len(raw.broken), dtype=np.bool_)
        bad[raw.row_numbers[good]] = False
        if not bad.any():
            return rows, bad
        places = np.full(len(bad), len(rows), dtype=np.int64)
        places[raw.row_numbers[good]] = good
        return take(concatenate([rows, _blank_row(rows)]), places), bad


def _blank_row(like: Rows) -> Rows:
    """Make one row of zeros and empty bags, with the columns of others."""
    bags = {}
    for name, bag in like.bags.items():
        num_ids = 0 if bag.offsets is not None else bag.width
        bags[name] = Bag(
            np.zeros(num_ids, dtype=np.int64),
            None if bag.offsets is None else np.zeros(2, dtype=np.int64),
            None if bag.weights is None else np.zeros(num_ids, dtype=np.float32),
            bag.width,
        )
    dense = np.zeros((1, like.dense.shape[1]), dtype=np.float32)
    return Rows(dense, np.zeros(1, dtype=like.labels.dtype), bags)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
