"""A joined table: held in memory, encoded once, looked up by key."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hybridjob.data.cells import as_text, null_mask, plain
from hybridjob.data.encode_categorical import encode_categorical
from hybridjob.data.encode_numeric import encode_numeric
from hybridjob.data.faults import Faults
from hybridjob.data.key_index import KeyIndex
from hybridjob.data.layout import categorical_columns, numeric_columns
from hybridjob.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hybridjob.data.config import DataConfig, JoinTable
    from hybridjob.data.raw_block import RawBlock, RawTable
    from hybridjob.data.rows import Bag

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SideTable:
    """S encoded rows, and one more, the last, for keys that are not there.

    numbers: name -> (S + 1,). bags: name -> S + 1 bags. bad_if_missing: what makes a row with an
    unknown key bad, or None.
    """

    key: str
    index: KeyIndex
    numbers: dict[str, NDArray[np.float32]]
    bags: dict[str, Bag]
    bad_if_missing: str | None

    def rows_of(self, keys: Any, faults: Faults) -> NDArray[np.int64]:
        """Find the row of each key (n,), S for one that is missing."""
        texts = as_text(keys, self.key, faults)
        found = self.index.find(texts)
        missing = found < 0
        if self.bad_if_missing is not None:
            faults.add(
                self.key,
                missing,
                lambda row: (
                    f"{texts[row]} is not in the joined table, "
                    f"and {self.bad_if_missing!r} must not be missing"
                ),
            )
        return np.where(missing, len(self.index), found)


def read_side_columns(
    join: JoinTable, table: RawTable, columns: list[str], config: DataConfig
) -> dict[str, Any]:
    """Read key and columns (without the prefix) of all rows as arrow arrays.

    Rows whose key is empty are left out. Raises DataError for rows that are no rows or no UTF-8,
    unless bad rows are to be skipped.
    """
    key = join.key_in_side
    wanted = dict.fromkeys([key, *columns], pa.string())
    parts = []
    for block in range(table.num_blocks):
        raw = table.read(block, wanted)
        faults = Faults(raw.table.num_rows)
        cells = {name: _unless_binary(raw.table[name], name, faults) for name in wanted}
        cells[key] = as_text(cells[key], key, faults)
        _report(raw, faults, config)
        keep = ~faults.mask & ~null_mask(cells[key])
        parts.append(pa.table(cells).filter(pa.array(keep)))
    if not parts:
        raise DataError(f"{', '.join(map(str, table.paths))}: the joined table holds no rows")
    joined = pa.concat_tables(parts)
    return {name: plain(joined[name]) for name in wanted}


def load_side_table(
    number: int,
    config: DataConfig,
    table: RawTable,
    homes: Mapping[str, int | None],
    indexes: Mapping[str, KeyIndex],
) -> SideTable:
    """Read and encode the joined table of a number.

    homes: which table each column is in. indexes: of the vocabularies. Raises DataError if a key is
    there twice, or a value cannot be encoded.
    """
    join = config.join[number]
    columns = {name: name[len(join.prefix) :] for name, home in homes.items() if home == number}
    cells = read_side_columns(join, table, list(columns.values()), config)
    keys = cells[join.key_in_side]
    try:
        index = KeyIndex(keys)
    except ValueError as error:
        raise DataError(f"{table.paths[0]}, column {join.key_in_side!r}: {error}") from error
    padded = {name: _with_missing(cells[inside]) for name, inside in columns.items()}
    faults = Faults(len(keys) + 1)
    numbers, bags = _encode(padded, config, indexes, faults)
    first = faults.first
    if first is not None and first.row < len(keys):
        where = f"{table.paths[0]}, the row of {join.key_in_side} {keys[first.row]}"
        raise DataError(f"{where}, column {first.column!r}: {first.text}")
    return SideTable(join.key, index, numbers, bags, None if first is None else first.column)


def _encode(
    cells: Mapping[str, Any],
    config: DataConfig,
    indexes: Mapping[str, KeyIndex],
    faults: Faults,
) -> tuple[dict[str, NDArray[np.float32]], dict[str, Bag]]:
    numbers = {
        column.name: encode_numeric(column, cells[column.column], faults)
        for column in numeric_columns(config)
        if column.column in cells
    }
    bags = {
        column.name: encode_categorical(
            column,
            cells[column.column],
            cells.get(column.weights_column or ""),
            indexes.get(column.name),
            faults,
        )
        for column in categorical_columns(config)
        if column.column in cells
    }
    return numbers, bags


def _with_missing(cells: Any) -> Any:
    return pa.concat_arrays([cells, pa.nulls(1, cells.type)])


def _unless_binary(column: Any, name: str, faults: Faults) -> Any:
    cells = plain(column)
    return as_text(cells, name, faults) if pa.types.is_binary(cells.type) else cells


def _report(raw: RawBlock, faults: Faults, config: DataConfig) -> None:
    if raw.broken:
        place, text = raw.place(raw.broken[0].row_number), raw.broken[0].text
    elif faults.first is not None:
        row = int(raw.row_numbers[faults.first.row])
        place, text = raw.place(row), f"column {faults.first.column!r}: {faults.first.text}"
    else:
        return
    if config.on_bad_row == "stop":
        raise DataError(f"{place}, {text}")
    count = len(raw.broken) + int(faults.mask.sum())
    _log.warning("%d bad rows of a joined table are skipped; the first: %s, %s", count, place, text)
