"""Find data files, and look at the beginning of text files."""

from __future__ import annotations

import csv
import glob
import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from hybridjob.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hybridjob.data.layout import TextLayout

# What opening and unpacking may raise.
UNREADABLE = (OSError, EOFError, zlib.error)
_BOM = b"\xef\xbb\xbf"
_SIZE_FIELD = 4


@dataclass(frozen=True, kw_only=True)
class TextFile:
    """One text file: its columns, and where its rows begin (bytes, after unpacking).

    size: bytes after unpacking. header_lines: lines before the first row.
    """

    path: Path
    column_names: tuple[str, ...]
    start: int
    size: int
    header_lines: int

    @property
    def compressed(self) -> bool:
        """Whether it is packed by gzip, and so can only be read as a whole."""
        return self.path.suffix == ".gz"

    def open(self) -> BinaryIO:
        """Open for reading unpacked bytes."""
        return _open(self.path)


def expand(patterns: Iterable[str], key: str) -> tuple[Path, ...]:
    """List the files that paths and globs name, in sorted order for each; key is for messages."""
    found: list[Path] = []
    for pattern in patterns:
        path = Path(pattern).expanduser()
        if path.is_file():
            found.append(path)
        elif path.is_dir():
            raise DataError(f"{key}: {pattern} is a folder: name its files, such as {pattern}/*")
        elif glob.has_magic(pattern):
            # Path.glob refuses absolute patterns.
            matches = [Path(name) for name in sorted(glob.glob(str(path)))]  # noqa: PTH207
            files = [match for match in matches if match.is_file()]
            if not files:
                raise DataError(f"{key}: no file matches {pattern} (current folder {Path.cwd()})")
            found.extend(files)
        else:
            raise DataError(f"{key}: file {pattern} does not exist (current folder {Path.cwd()})")
    return tuple(found)


def inspect_text(path: Path, layout: TextLayout) -> TextFile:
    """Read a file's header. Raises DataError if it cannot be read, or holds nothing."""
    try:
        with _open(path) as file:
            first = file.readline()
        size = _unpacked_size(path)
    except UNREADABLE as error:
        raise DataError(f"cannot read {path}: {error}") from error
    bom = len(_BOM) if first.startswith(_BOM) else 0
    if not layout.header:
        return TextFile(
            path=path,
            column_names=layout.column_names or (),
            start=bom,
            size=size,
            header_lines=0,
        )
    if not first[bom:].strip():
        raise DataError(f"{path} has no header: its first line is empty")
    return TextFile(
        path=path,
        column_names=layout.column_names or _names(first[bom:], path, layout),
        start=len(first),
        size=size,
        header_lines=1,
    )


def _names(line: bytes, path: Path, layout: TextLayout) -> tuple[str, ...]:
    try:
        text = line.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}, line 1: the header is not UTF-8: {error}") from error
    if layout.quote:
        names = next(csv.reader([text], delimiter=layout.delimiter))
    else:
        names = text.split(layout.delimiter)
    if layout.type_separator is not None:
        names = [name.split(layout.type_separator)[0] for name in names]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"{path}, line 1: column {repeated[0]!r} is named twice")
    return tuple(names)


def _open(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast("BinaryIO", gzip.open(path, "rb"))
    return path.open("rb")


def _unpacked_size(path: Path) -> int:
    size = path.stat().st_size
    if path.suffix != ".gz" or size < _SIZE_FIELD:
        return size
    # gzip ends in the unpacked size modulo 2**32; only estimates and limits use it.
    with path.open("rb") as file:
        file.seek(-_SIZE_FIELD, 2)
        return int.from_bytes(file.read(_SIZE_FIELD), "little")
