"""Delimited text to an arrow table: one typed pass, and a careful one where that fails."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from hybridjob.data.raw_block import BrokenRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hybridjob.data.layout import TextLayout

# Signals are Python's affair: while it reads text Arrow takes INT and TERM for itself, and one in a
# hundred is lost.
pa.enable_signal_handlers(False)

# Arrow ends a row at either character, and takes no empty line for a row.
_LINE = re.compile(rb"[^\r\n]+")
_OPEN_QUOTE = (
    "a quote is opened and not closed in this line (newlines_in_values = true reads cells that "
    "hold line ends; quote = false takes quotes as they are)"
)


@dataclass(frozen=True)
class Parsed:
    """An arrow table of n rows, each one's number among all the block's rows, and broken rows."""

    table: Any
    row_numbers: NDArray[np.int64]
    broken: tuple[BrokenRow, ...]


def parse(
    data: bytes, names: tuple[str, ...], wanted: Mapping[str, Any], layout: TextLayout
) -> Parsed:
    """Read the wanted columns (name -> arrow type) of lines without a header.

    If a cell does not fit its type, all columns come as binary, so that the encoder can tell which
    cell it is. Empty lines are no rows.
    """
    try:
        table = _read(data, names, wanted, layout, None)
    except pa.ArrowInvalid:
        return _parse_carefully(data, names, wanted, layout)
    # An unclosed quote swallows lines without an error.
    if layout.quote and not layout.newlines_in_values and table.num_rows != _count_lines(data):
        return _parse_carefully(data, names, wanted, layout)
    return Parsed(table, np.arange(table.num_rows, dtype=np.int64), ())


def row_line(data: bytes, row_number: int, layout: TextLayout) -> int:
    """Tell in which line of the block, from 0 on, a row begins.

    Quotes in the middle of a cell may make this see fewer rows than the reader did: then it is the
    last line that begins one.
    """
    row, start = -1, 0
    inside = False
    for found in _LINE.finditer(data):
        if not inside:
            row, start = row + 1, found.start()
            if row == row_number:
                break
        if layout.newlines_in_values:
            inside ^= found[0].count(b'"') % 2 == 1
    return data.count(b"\n", 0, start)


def _parse_carefully(
    data: bytes, names: tuple[str, ...], wanted: Mapping[str, Any], layout: TextLayout
) -> Parsed:
    broken: list[BrokenRow] = []
    numbers: NDArray[np.int64] | None = None
    if layout.quote and not layout.newlines_in_values:
        lines = _LINE.findall(data)
        is_open = [line.count(b'"') % 2 == 1 for line in lines]
        broken = [BrokenRow(i, _OPEN_QUOTE) for i, is_bad in enumerate(is_open) if is_bad]
        numbers = np.flatnonzero(~np.array(is_open, dtype=np.bool_)).astype(np.int64)
        data = b"\n".join(lines[number] for number in numbers)
    miscut: list[tuple[int, int]] = []
    table = _read(data, names, dict.fromkeys(wanted, pa.binary()), layout, miscut)
    if numbers is None:
        numbers = np.arange(table.num_rows + len(miscut), dtype=np.int64)
    for row, actual in miscut:
        text = f"the line has {actual} columns, expected {len(names)}: {', '.join(names)}"
        broken.append(BrokenRow(int(numbers[row]), text))
    numbers = np.delete(numbers, [row for row, _ in miscut])
    return Parsed(table, numbers, tuple(sorted(broken)))


def _read(
    data: bytes,
    names: tuple[str, ...],
    wanted: Mapping[str, Any],
    layout: TextLayout,
    miscut: list[tuple[int, int]] | None,
) -> Any:
    """Read by arrow; lines with a wrong number of cells go to miscut, or raise if it is None."""
    if not data.strip(b"\r\n"):
        return pa.table({name: pa.array([], type=wanted[name]) for name in wanted})

    def note(row: Any) -> str:
        assert miscut is not None  # noqa: S101 - our own bug: arrow only calls it where it is given
        miscut.append((row.number - 1, row.actual_columns))
        return "skip"

    return csv.read_csv(
        pa.BufferReader(data),
        # One chunk, on this thread: rows keep their numbers.
        read_options=csv.ReadOptions(
            use_threads=False, block_size=len(data) + 1, column_names=list(names)
        ),
        parse_options=csv.ParseOptions(
            delimiter=layout.delimiter,
            quote_char='"' if layout.quote else False,
            newlines_in_values=layout.newlines_in_values,
            invalid_row_handler=None if miscut is None else note,
        ),
        convert_options=csv.ConvertOptions(
            column_types=dict(wanted),
            include_columns=list(wanted),
            null_values=list(layout.null_values),
            strings_can_be_null=True,
        ),
    )


def _count_lines(data: bytes) -> int:
    if b"\n\n" in data or b"\r" in data or data.startswith(b"\n"):
        return len(_LINE.findall(data))
    return data.count(b"\n") + (not data.endswith(b"\n"))
