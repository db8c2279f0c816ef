"""Labels and dense columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from hybridjob.data.cells import as_floats, as_text, null_mask

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hybridjob.data.columns import NumericColumn
    from hybridjob.data.config import DataConfig
    from hybridjob.data.faults import Faults
    from hybridjob.data.label import LabelRule

_COMPARE = {
    ">=": np.greater_equal,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
    ">": np.greater,
    "<": np.less,
}


def encode_numeric(column: NumericColumn, cells: Any, faults: Faults) -> NDArray[np.float32]:
    """Transform a column (n,); empty cells and NaN are missing, infinite ones are bad."""
    numbers = as_floats(cells, column.column, faults)
    faults.add(
        column.column, np.isinf(numbers), lambda row: f"{numbers[row]} is not a finite number"
    )
    if column.transform == "log1p":
        numbers = np.copysign(np.log1p(np.abs(numbers)), numbers)
    elif column.mean is not None and column.std is not None:
        numbers = (numbers - column.mean) / column.std
    missing = np.isnan(numbers)
    # A bad row's value is thrown away with its row: keep the cast from warning about it.
    missing |= np.isinf(numbers)
    return np.where(missing, column.missing, numbers).astype(np.float32)


def encode_label(rule: LabelRule, config: DataConfig, cells: Any, faults: Faults) -> NDArray[Any]:
    """Make labels (n,): float32, or int64 for classes. A missing label is a bad row."""
    if rule.is_text:
        empty = null_mask(cells)
        equal = pc.equal(as_text(cells, rule.column, faults), rule.value).fill_null(False)
        labels = equal.to_numpy(zero_copy_only=False) == (rule.operator == "==")
        labels = labels.astype(np.float64)
    else:
        labels = as_floats(cells, rule.column, faults)
        empty = np.isnan(labels) & ~faults.mask
    faults.add(rule.column, empty, lambda _: "the label is empty")
    labels = np.where(empty | faults.mask, 0.0, labels)
    if rule.operator is not None and not rule.is_text:
        labels = _COMPARE[rule.operator](labels, float(rule.value or 0)).astype(np.float64)
    elif not rule.is_text:
        _check_range(rule.column, config, labels, faults)
    if config.label_type == "class":
        return np.where(np.isfinite(labels), labels, 0.0).astype(np.int64)
    return np.where(np.isfinite(labels), labels, 0.0).astype(np.float32)


def _check_range(
    column: str, config: DataConfig, labels: NDArray[np.float64], faults: Faults
) -> None:
    if config.label_type == "binary":
        bad = (labels != 0) & (labels != 1)
        expected = f"0 or 1; a rule such as label = '{column} > 0' makes it from other values"
    elif config.label_type == "class":
        most = 2.0**53 if config.num_classes is None else config.num_classes
        bad = ~((labels >= 0) & (labels < most) & (labels == np.floor(labels)))
        end = "" if config.num_classes is None else f" below num_classes = {config.num_classes}"
        expected = f"a class: a whole number from 0 on{end}"
    else:
        bad = np.isinf(labels)
        expected = "a finite number"
    faults.add(column, bad, lambda row: f"the label is {labels[row]:g}, expected {expected}")
