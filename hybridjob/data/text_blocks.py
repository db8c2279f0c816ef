"""Cut text files into blocks of whole lines, by byte ranges and without reading them first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hybridjob.data.files import UNREADABLE
from hybridjob.errors import DataError

if TYPE_CHECKING:
    from typing import BinaryIO

    from hybridjob.data.files import TextFile

_LEAST_BLOCK = 4 * 1024
_MOST_BLOCK = 4 * 1024 * 1024
_BLOCKS_WANTED = 64
_MOST_WHOLE = 1 << 30
_READ = 1 << 16


@dataclass(frozen=True)
class TextBlock:
    """Whole lines of a file, and at which byte (after unpacking) they begin."""

    data: bytes
    begin: int


def block_size(total_bytes: int) -> int:
    """Choose the size of blocks: small files are still cut finely enough to be shuffled."""
    return min(max(total_bytes // _BLOCKS_WANTED, _LEAST_BLOCK), _MOST_BLOCK)


def read_block(file: TextFile, index: int, size: int) -> TextBlock:
    """Read the lines that begin in [start + index * size, start + (index + 1) * size).

    There may be none, if lines are long. Raises DataError if the file cannot be read.
    """
    low = file.start + index * size
    high = min(low + size, file.size)
    try:
        with file.open() as stream:
            return _read_lines(stream, low, high, is_first=index == 0)
    except OSError as error:
        raise DataError(f"cannot read {file.path}: {error}") from error


def read_whole(file: TextFile) -> TextBlock:
    """Read all lines as one block. Raises DataError if that is more than memory should hold."""
    try:
        with file.open() as stream:
            data = stream.read(_MOST_WHOLE + 1)
    except UNREADABLE as error:
        raise DataError(f"cannot read {file.path}: {error}") from error
    if len(data) > _MOST_WHOLE:
        raise DataError(
            f"{file.path} holds more than {_MOST_WHOLE} bytes, the most that is read as a whole "
            "(packed, newlines_in_values, joined tables): unpack it or cut it into several files"
        )
    return TextBlock(data[file.start :], file.start)


def line_number(file: TextFile, begin: int) -> int:
    """Count the number, from 1 on, of the line that begins at a byte; reads all before it."""
    lines = 1
    with file.open() as stream:
        while begin > 0 and (piece := stream.read(min(begin, _READ))):
            lines += piece.count(b"\n")
            begin -= len(piece)
    return lines


def _read_lines(stream: BinaryIO, low: int, high: int, *, is_first: bool) -> TextBlock:
    # A line begins where the byte before it ends one: look one byte back.
    skip_from = low if is_first else low - 1
    stream.seek(skip_from)
    data = stream.read(high - skip_from)
    begin = 0
    if not is_first:
        begin = data.find(b"\n", 0, high - low) + 1
        if begin == 0:
            return TextBlock(b"", low)
    pieces = [data[begin:]]
    if pieces[0] and not pieces[0].endswith(b"\n"):
        while piece := stream.readline(_READ):
            pieces.append(piece)
            if piece.endswith(b"\n"):
                break
    return TextBlock(b"".join(pieces), skip_from + begin)
