"""Find out which table each used column is in: the main one, or a joined one."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from hybridjob.data.layout import categorical_columns, label_rule, numeric_columns
from hybridjob.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hybridjob.data.config import DataConfig
    from hybridjob.data.raw_block import RawTable


def used_columns(config: DataConfig) -> list[str]:
    """Name the columns that numeric and categorical features and their weights use, once each."""
    used = [column.column for column in numeric_columns(config)]
    for column in categorical_columns(config):
        used.append(column.column)
        if column.weights_column is not None:
            used.append(column.weights_column)
    return list(dict.fromkeys(used))


def locate(config: DataConfig, main: RawTable, sides: Sequence[RawTable]) -> dict[str, int | None]:
    """Map each used column to its joined table's number, or None for the main table.

    Raises DataError naming the file and the nearest column if one is nowhere, and naming both
    tables if one is in two.
    """
    if not main.paths:
        return dict.fromkeys(used_columns(config))
    own = main.columns_of(0)
    side_columns = [
        [join.prefix + name for name in side.columns_of(0) if name != join.key_in_side]
        for join, side in zip(config.join, sides, strict=True)
    ]
    homes: dict[str, int | None] = {}
    for column in used_columns(config):
        among = [i for i, names in enumerate(side_columns) if column in names]
        if column in own:
            among.insert(0, -1)
        if len(among) > 1:
            where = [str((main if i < 0 else sides[i]).paths[0]) for i in among]
            raise DataError(
                f"column {column!r} is in {' and in '.join(where)}: give [[data.join]] a prefix"
            )
        if not among:
            everything = [*own, *(name for names in side_columns for name in names)]
            files = [str(table.paths[0]) for table in (main, *sides)]
            raise DataError(f"{' + '.join(files)}: {_no_column(column, everything)}")
        homes[column] = None if among[0] < 0 else among[0]
    needed = [label_rule(config).column, *(join.key for join in config.join)]
    needed += [column for column, home in homes.items() if home is None]
    require(main, needed)
    for i, join in enumerate(config.join):
        inside = [name[len(join.prefix) :] for name, home in homes.items() if home == i]
        require(sides[i], [join.key_in_side, *inside])
    return homes


def require(table: RawTable, columns: Iterable[str]) -> None:
    """Check that every file of a table has the columns; raises DataError with the nearest name."""
    wanted = list(dict.fromkeys(columns))
    for i, path in enumerate(table.paths):
        names = table.columns_of(i)
        for column in wanted:
            if column not in names:
                raise DataError(f"{path}: {_no_column(column, names)}")


def _no_column(column: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(column, names, n=1)
    hint = f": did you mean {near[0]!r}?" if near else "."
    return f"there is no column {column!r}{hint} The columns are {', '.join(names)}"
