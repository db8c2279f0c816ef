"""Text files as blocks of arrow tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hybridjob.data.files import UNREADABLE, TextFile, inspect_text
from hybridjob.data.parse import parse, row_line
from hybridjob.data.raw_block import RawBlock
from hybridjob.data.text_blocks import (
    TextBlock,
    block_size,
    line_number,
    read_block,
    read_whole,
)
from hybridjob.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hybridjob.data.layout import TextLayout

_SAMPLE = 1 << 16


class TextTable:
    """Files of delimited text. Packed ones, and ones with line ends in cells, are one block each.

    whole: read every file as one block.
    """

    def __init__(self, paths: tuple[Path, ...], layout: TextLayout, *, whole: bool = False) -> None:
        self._files = tuple(inspect_text(path, layout) for path in paths)
        self._layout = layout
        self._whole = whole or layout.newlines_in_values
        self._size = block_size(sum(file.size for file in self._files))
        counts = [self._blocks_of(file) for file in self._files]
        # Blocks of file i have numbers from firsts[i] to firsts[i + 1] - 1.
        self._firsts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])

    @property
    def num_blocks(self) -> int:
        """All files' blocks."""
        return int(self._firsts[-1])

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, in the order of their numbers."""
        return tuple(file.path for file in self._files)

    def columns_of(self, file_index: int) -> tuple[str, ...]:
        """Name the columns of one file."""
        return self._files[file_index].column_names

    def origin_of(self, block: int) -> tuple[int, int]:
        """Tell a block's file and its number there."""
        file_index = int(np.searchsorted(self._firsts, block, side="right")) - 1
        return file_index, block - int(self._firsts[file_index])

    def read(self, block: int, wanted: Mapping[str, Any]) -> RawBlock:
        """Read the wanted columns of a block; all are binary if a cell does not fit its type."""
        file_index, index = self.origin_of(block)
        file = self._files[file_index]
        text = read_whole(file) if self._is_whole(file) else read_block(file, index, self._size)
        parsed = parse(text.data, file.column_names, wanted, self._layout)
        return RawBlock(
            file_index=file_index,
            block_in_file=index,
            table=parsed.table,
            row_numbers=parsed.row_numbers,
            broken=parsed.broken,
            place=lambda row: self._place(file, text, row),
        )

    def estimated_rows(self) -> int:
        """Say about how many rows there are: from the files' sizes and the first file's lines."""
        if not self._files:
            return 0
        first = self._files[0]
        try:
            with first.open() as stream:
                sample = stream.read(_SAMPLE)[first.start :]
        except UNREADABLE as error:
            raise DataError(f"cannot read {first.path}: {error}") from error
        lines = sample.count(b"\n") + (not sample.endswith(b"\n"))
        total = sum(max(0, file.size - file.start) for file in self._files)
        return round(total * lines / len(sample)) if sample else 0

    def _is_whole(self, file: TextFile) -> bool:
        return self._whole or file.compressed

    def _blocks_of(self, file: TextFile) -> int:
        length = file.size - file.start
        if self._is_whole(file):
            return 1
        return -(-length // self._size) if length > 0 else 0

    def _place(self, file: TextFile, text: TextBlock, row: int) -> str:
        line = line_number(file, text.begin) + row_line(text.data, row, self._layout)
        return f"{file.path}, line {line}"
