"""Raw blocks to encoded rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hybridjob.data.cells import is_list, plain
from hybridjob.data.encode_categorical import encode_categorical
from hybridjob.data.encode_numeric import encode_label, encode_numeric
from hybridjob.data.layout import categorical_columns, label_rule, numeric_columns
from hybridjob.data.rows import Rows, take_bag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hybridjob.data.columns import CategoricalColumn
    from hybridjob.data.config import DataConfig
    from hybridjob.data.faults import Faults
    from hybridjob.data.key_index import KeyIndex
    from hybridjob.data.rows import Bag
    from hybridjob.data.side_table import SideTable


class Encoder:
    """Encodes blocks of one data set.

    homes: which joined table each column is in, None for the main one. indexes: of vocabularies.
    """

    def __init__(
        self,
        config: DataConfig,
        homes: Mapping[str, int | None],
        sides: Sequence[SideTable],
        indexes: Mapping[str, KeyIndex],
    ) -> None:
        self._config = config
        self._homes = homes
        self._sides = sides
        self._indexes = indexes
        self._rule = label_rule(config)
        self._numeric = numeric_columns(config)
        self._categorical = categorical_columns(config)
        self.wanted = self._wanted()

    def encode(self, table: Any, faults: Faults) -> Rows:
        """Encode an arrow table's n rows; bad ones are noted in faults and hold any values."""
        # The label first: it tells its own faults from those of others.
        label = encode_label(self._rule, self._config, plain(table[self._rule.column]), faults)
        side_rows = [side.rows_of(plain(table[side.key]), faults) for side in self._sides]
        dense = np.empty((table.num_rows, len(self._numeric)), dtype=np.float32)
        for i, column in enumerate(self._numeric):
            home = self._homes[column.column]
            if home is None:
                dense[:, i] = encode_numeric(column, plain(table[column.column]), faults)
            else:
                dense[:, i] = self._sides[home].numbers[column.name][side_rows[home]]
        bags = self._bags(table, side_rows, faults)
        return Rows(dense, label, bags)

    def features_of_bags(self, table: Any) -> frozenset[str]:
        """Name the features whose cells hold bags of any size, not one value or none."""
        return frozenset(
            column.name
            for column in self._categorical
            if column.separator is not None or self._is_list(column, table)
        )

    def _is_list(self, column: CategoricalColumn, table: Any) -> bool:
        home = self._homes[column.column]
        if home is None:
            return is_list(table[column.column])
        return self._sides[home].bags[column.name].offsets is not None

    def _bags(
        self, table: Any, side_rows: Sequence[NDArray[np.int64]], faults: Faults
    ) -> dict[str, Bag]:
        bags: dict[str, Bag] = {}
        for column in self._categorical:
            home = self._homes[column.column]
            if home is not None:
                bags[column.name] = take_bag(self._sides[home].bags[column.name], side_rows[home])
                continue
            name = column.weights_column
            weights = None if name is None else plain(table[name])
            bags[column.name] = encode_categorical(
                column,
                plain(table[column.column]),
                weights,
                self._indexes.get(column.name),
                faults,
            )
        return bags

    def _wanted(self) -> dict[str, Any]:
        """Name the main table's columns with the type in which text is best read."""
        uses: list[tuple[str, Any]] = [
            (self._rule.column, pa.string() if self._rule.is_text else pa.float64())
        ]
        uses += [(column.column, pa.float64()) for column in self._numeric]
        for column in self._categorical:
            single = column.separator is None
            is_number = single and column.encode == "identity"
            uses.append((column.column, pa.int64() if is_number else pa.string()))
            if column.weights_column is not None:
                uses.append((column.weights_column, pa.float64() if single else pa.string()))
        uses += [(side.key, pa.string()) for side in self._sides]
        wanted: dict[str, Any] = {}
        for name, kind in uses:
            if self._homes.get(name) is None:
                # Two uses that differ read text, which each then casts for itself.
                wanted[name] = kind if wanted.get(name, kind) == kind else pa.string()
        return wanted
