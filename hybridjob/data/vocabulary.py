"""Vocabularies: files with one value a line; line i, from 1 on, is id i, and id 0 all else."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hybridjob.data.cells import as_text, is_list, plain
from hybridjob.data.encode_categorical import present_values, split_cells
from hybridjob.data.faults import Faults
from hybridjob.data.key_index import KeyIndex
from hybridjob.errors import DataError

if TYPE_CHECKING:
    from collections import Counter

    from hybridjob.data.columns import CategoricalColumn


def load_vocabulary(path: Path, feature: str) -> KeyIndex:
    """Read a vocabulary's file. Raises DataError naming the file and what is wrong with it."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise DataError(f"vocabulary of {feature!r}: cannot read {path}: {error}") from error
    try:
        return KeyIndex(pa.array(lines, type=pa.binary()).cast(pa.string()))
    except pa.ArrowInvalid as error:
        raise DataError(f"vocabulary of {feature!r}: {path} is not UTF-8") from error
    except ValueError as error:
        raise DataError(f"vocabulary of {feature!r}: {path}: {error}") from error


def count_values(column: CategoricalColumn, cells: Any, counts: Counter[str]) -> None:
    """Add the values of a column's cells to counts; cells that are no text are left out."""
    cells = plain(cells)
    faults = Faults(len(cells))
    if column.separator is not None or is_list(cells):
        values, _ = split_cells(cells, column.separator, column.column, faults)
    else:
        values = cells
    values = as_text(values, column.column, Faults(len(values)))
    values = values.filter(pa.array(present_values(values)))
    for entry in pc.value_counts(values):
        counts[entry["values"].as_py()] += entry["counts"].as_py()


def write_vocabulary(path: Path, column: CategoricalColumn, counts: Counter[str]) -> None:
    """Write the values that are frequent enough, sorted by text; the file appears whole or not."""
    values = sorted(value for value, count in counts.items() if count >= column.min_count)
    for value in values:
        if "\n" in value or "\r" in value:
            raise DataError(f"vocabulary of {column.name!r}: value {value!r} holds a line end")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{value}\n" for value in values)
            file.flush()
            os.fsync(file.fileno())
        Path(part).chmod(0o644)
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
