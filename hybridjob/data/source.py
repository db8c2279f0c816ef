"""Encoded blocks of one split: what the windows are filled from."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from hybridjob.data.faults import Faults
from hybridjob.data.rows import take
from hybridjob.errors import DataError

if TYPE_CHECKING:
    from hybridjob.data.encoder import Encoder
    from hybridjob.data.raw_block import RawBlock, RawTable
    from hybridjob.data.rows import Rows
    from hybridjob.data.split import Split

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BlockRows:
    """Good rows of a block, and how many bad ones were left out."""

    rows: Rows
    skipped: int


class Source(Protocol):
    """Blocks of encoded rows, cut whatever the number of trainers."""

    @property
    def num_blocks(self) -> int:
        """How many blocks there are."""

    def read(self, block: int) -> BlockRows:
        """Read this split's rows of a block, in order."""

    def estimated_rows(self) -> int:
        """Say about how many rows this split has."""


class BadRows:
    """What becomes of bad rows: an error, or one warning and then silence."""

    def __init__(self, *, skip: bool) -> None:
        self._skip = skip
        self._warned = False

    def report(self, raw: RawBlock, row_number: int, text: str) -> None:
        """Raise DataError with the row's place, or warn if bad rows are skipped."""
        if not self._skip:
            raise DataError(
                f"{raw.place(row_number)}, {text}. "
                'Correct it, or set data.on_bad_row = "skip" to leave such rows out'
            )
        if not self._warned:
            self._warned = True
            _log.warning("bad rows are skipped; the first: %s, %s", raw.place(row_number), text)


class FileSource:
    """Blocks of files. Under on_bad_row = "stop" a bad row raises DataError with its place."""

    def __init__(
        self, table: RawTable, encoder: Encoder, split: Split, *, skip_bad_rows: bool
    ) -> None:
        self._table = table
        self._encoder = encoder
        self._split = split
        self._bad_rows = BadRows(skip=skip_bad_rows)

    @property
    def num_blocks(self) -> int:
        """How many blocks there are."""
        return self._table.num_blocks

    def estimated_rows(self) -> int:
        """Say about how many rows this split has."""
        share = self._split.fraction if self._split.name == "test" else 1 - self._split.fraction
        return round(self._table.estimated_rows() * share)

    def read(self, block: int) -> BlockRows:
        """Read this split's rows of a block, in order."""
        raw = self._table.read(block, self._encoder.wanted)
        if raw.broken:
            row, text = raw.broken[0]
            self._bad_rows.report(raw, row, text)
        table, numbers, skipped = raw.table, raw.row_numbers, len(raw.broken)
        if not self._split.takes_all:
            where = (raw.file_index, raw.block_in_file)
            keep = self._split.holds(*where, numbers)
            table, numbers = table.filter(pa.array(keep)), numbers[keep]
            broken = np.array([row for row, _ in raw.broken], dtype=np.int64)
            skipped = int(self._split.holds(*where, broken).sum())
        faults = Faults(table.num_rows)
        rows = self._encoder.encode(table, faults)
        if faults.first is None:
            return BlockRows(rows, skipped)
        first = faults.first
        text = f"column {first.column!r}: {first.text}"
        self._bad_rows.report(raw, int(numbers[first.row]), text)
        good = take(rows, np.flatnonzero(~faults.mask))
        return BlockRows(good, skipped + int(faults.mask.sum()))
