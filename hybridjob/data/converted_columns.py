"""The columns of converted data: encoded rows as arrow tables, and the `[data]` that reads them."""

from __future__ import annotations

import glob
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hybridjob.data.layout import categorical_columns, numeric_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from hybridjob.data.config import DataConfig
    from hybridjob.data.rows import Bag, Rows

LABEL = "label"
_KEPT_KEYS = (
    *("test_fraction", "label_type", "num_classes"),
    *("on_bad_row", "shuffle", "shuffle_rows"),
)


def _dense(name: str) -> str:
    return f"dense.{name}"


def _ids(name: str) -> str:
    return f"ids.{name}"


def _weights(name: str) -> str:
    return f"weights.{name}"


class ConvertedColumns:
    """How the rows of a data set are written. cardinalities: feature -> number of ids."""

    def __init__(self, config: DataConfig, cardinalities: Mapping[str, int]) -> None:
        self._dense = [column.name for column in numeric_columns(config)]
        self._cardinalities = cardinalities

    def table(self, rows: Rows, bad: NDArray[np.bool_], lists: Collection[str]) -> Any:
        """Make an arrow table of n rows.

        bad: (n,) whose labels are left empty. lists: the features whose cells hold lists of ids;
        those of others hold one or none.
        """
        columns = {LABEL: pa.array(rows.labels, mask=bad)}
        for number, name in enumerate(self._dense):
            columns[_dense(name)] = pa.array(np.ascontiguousarray(rows.dense[:, number]))
        for name, bag in rows.bags.items():
            is_small = self._cardinalities[name] <= np.iinfo(np.int32).max
            ids = bag.values.astype(np.int32 if is_small else np.int64)
            cells = _lists if name in lists else _single_cells
            columns[_ids(name)] = cells(bag, ids)
            if bag.weights is not None:
                columns[_weights(name)] = cells(bag, bag.weights)
        return pa.table(columns)


def _lists(bag: Bag, values: NDArray[Any]) -> Any:
    """Give a list a bag. values: (N,) its ids, or their weights."""
    return pa.ListArray.from_arrays(bag.all_offsets().astype(np.int32), values)


def _single_cells(bag: Bag, values: NDArray[Any]) -> Any:
    """Give a value a bag, null for an empty one."""
    if bag.offsets is None:
        return pa.array(values)
    there = np.diff(bag.offsets) == 1
    cells = np.zeros(len(there), dtype=values.dtype)
    cells[there] = values
    return pa.array(cells, mask=~there)


def converted_section(
    config: DataConfig, cardinalities: Mapping[str, int], folder: Path
) -> dict[str, Any]:
    """Give the `[data]` that reads the converted data of config from folder."""
    section: dict[str, Any] = {"format": "parquet", "path": _all_files(folder / "train")}
    if config.test_path:
        section["test_path"] = _all_files(folder / "test")
    section["label"] = LABEL
    for key in _KEPT_KEYS:
        value = getattr(config, key)
        if value != type(config).model_fields[key].default:
            section[key] = value
    section["numeric"] = [
        {"column": _dense(column.name), "name": column.name} for column in numeric_columns(config)
    ]
    section["categorical"] = [
        {
            "column": _ids(column.name),
            "name": column.name,
            "encode": "identity",
            "num_embeddings": cardinalities[column.name],
        }
        | ({"weights_column": _weights(column.name)} if column.weights_column else {})
        for column in categorical_columns(config)
    ]
    return section


def _all_files(folder: Path) -> str:
    return f"{glob.escape(str(folder))}/*.parquet"
