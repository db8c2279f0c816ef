"""Categorical columns to bags of ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hybridjob.data.cells import (
    as_floats,
    as_text,
    as_whole_numbers,
    is_list,
    null_mask,
)
from hybridjob.data.hashing import hash_strings
from hybridjob.data.rows import Bag

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hybridjob.data.columns import CategoricalColumn
    from hybridjob.data.faults import Faults
    from hybridjob.data.key_index import KeyIndex

_EMPTY_HASH = int(hash_strings(pa.array([""]))[0])


def encode_categorical(
    column: CategoricalColumn,
    cells: Any,
    weights: Any | None,
    index: KeyIndex | None,
    faults: Faults,
) -> Bag:
    """Make bags of n cells. weights: the cells of weights_column. index: of the vocabulary."""
    if column.separator is not None or is_list(cells):
        return _encode_bags(column, cells, weights, index, faults)
    missing = null_mask(cells)
    ids = _ids(column, cells, index, faults, None)
    amounts = None if weights is None else _weights(column, weights, missing, faults)
    if column.missing_policy == "bad":
        faults.add(column.column, missing, lambda _: "the cell is empty")
    if column.missing_policy != "empty" or not missing.any():
        return Bag(ids, weights=amounts)
    present = ~missing
    offsets = _offsets(present.astype(np.int64))
    return Bag(ids[present], offsets, None if amounts is None else amounts[present])


def split_cells(
    cells: Any, separator: str | None, column: str, faults: Faults
) -> tuple[Any, NDArray[np.int64]]:
    """Cut cells (n) into their values: arrow array (N), and how many each cell has (n,)."""
    if not is_list(cells):
        cells = pc.split_pattern(as_text(cells, column, faults), separator or " ")
    lengths = pc.list_value_length(cells).fill_null(0)
    return pc.list_flatten(cells), lengths.to_numpy(zero_copy_only=False).astype(np.int64)


def present_values(values: Any) -> NDArray[np.bool_]:
    """Tell which values (N,) of bags are there: neither null nor the empty text."""
    present = ~null_mask(values)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        lengths = pc.binary_length(values).fill_null(0)
        present &= lengths.to_numpy(zero_copy_only=False) > 0
    return present


def _encode_bags(
    column: CategoricalColumn,
    cells: Any,
    weights: Any | None,
    index: KeyIndex | None,
    faults: Faults,
) -> Bag:
    values, lengths = split_cells(cells, column.separator, column.column, faults)
    amounts: NDArray[np.float32] | None = None
    rows = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    present = present_values(values)
    if weights is not None:
        amounts = _bag_weights(column, weights, lengths, present, faults)
    if not present.all():
        values = values.filter(pa.array(present))
        rows = rows[present]
        lengths = np.bincount(rows, minlength=len(lengths)).astype(np.int64)
        amounts = None if amounts is None else amounts[present]
    ids = _ids(column, values, index, faults, rows)
    bag = Bag(ids, _offsets(lengths), amounts)
    empty = lengths == 0
    if column.missing_policy == "bad":
        faults.add(column.column, empty, lambda _: "the bag is empty")
    elif column.missing_policy == "id" and empty.any():
        return _fill_empty(bag, empty, _missing_id(column))
    return bag


def _ids(
    column: CategoricalColumn,
    values: Any,
    index: KeyIndex | None,
    faults: Faults,
    rows: NDArray[np.int64] | None,
) -> NDArray[np.int64]:
    """Encode values (N); rows: the row of each, None if there is one a row."""
    size = column.num_embeddings or 1
    if column.encode == "identity":
        ids = as_whole_numbers(values, column.column, faults, rows)
        bad = (ids < 0) | (ids >= size)
        faults.add(
            column.column,
            bad,
            lambda place: (
                f"id {ids[place]} is out of range 0..{size - 1} of "
                f"{column.name!r}: raise its num_embeddings, or hash it"
            ),
            rows,
        )
        return ids
    texts = as_text(values, column.column, faults, rows)
    if column.encode == "vocabulary":
        assert index is not None  # noqa: S101 - the opener loads each vocabulary
        return index.find(texts) + 1
    # Below 2**63 by the configuration's limit.
    return (hash_strings(texts) % np.uint64(size)).view(np.int64)


def _missing_id(column: CategoricalColumn) -> int:
    return 0 if column.encode == "vocabulary" else _EMPTY_HASH % (column.num_embeddings or 1)


def _weights(
    column: CategoricalColumn, weights: Any, missing: NDArray[np.bool_], faults: Faults
) -> NDArray[np.float32]:
    name = column.weights_column or ""
    numbers = as_floats(weights, name, faults)
    bad = ~np.isfinite(numbers) & ~missing
    faults.add(name, bad, lambda row: f"weight {numbers[row]} is not a finite number")
    return np.where(np.isfinite(numbers), numbers, 0.0).astype(np.float32)


def _bag_weights(
    column: CategoricalColumn,
    weights: Any,
    lengths: NDArray[np.int64],
    present: NDArray[np.bool_],
    faults: Faults,
) -> NDArray[np.float32]:
    """Give a weight for each value (N,), counted before empty values are dropped."""
    name = column.weights_column or ""
    values, counts = split_cells(weights, column.separator, name, faults)
    # An empty cell is a bag of one empty text where it is cut, and none where it is null.
    one_empty = (lengths <= 1) & (counts <= 1)
    differ = (counts != lengths) & ~(one_empty & (_kept(present, lengths) == 0))
    faults.add(
        name,
        differ,
        lambda row: f"{counts[row]} weights for {lengths[row]} values of {column.column!r}",
    )
    rows = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    there = present_values(values)
    numbers = np.zeros(len(values), dtype=np.float64)
    numbers[there] = as_floats(values.filter(pa.array(there)), name, faults, rows[there])
    faults.add(
        name,
        ~np.isfinite(numbers),
        lambda place: f"weight {numbers[place]} is not a finite number",
        rows,
    )
    if (counts == lengths).all():
        return numbers.astype(np.float32)
    # Bad rows' weights only have to fill their places until the rows are dropped.
    aligned = np.zeros(int(lengths.sum()), dtype=np.float32)
    same = counts == lengths
    aligned[np.repeat(same, lengths)] = numbers[np.repeat(same, counts)]
    return aligned


def _kept(present: NDArray[np.bool_], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    total = np.concatenate([[0], np.cumsum(present)])
    ends = np.cumsum(lengths)
    return np.asarray(total[ends] - total[ends - lengths], dtype=np.int64)


def _fill_empty(bag: Bag, empty: NDArray[np.bool_], missing_id: int) -> Bag:
    offsets = bag.all_offsets()
    places = offsets[:-1][empty]
    values = np.insert(bag.values, places, missing_id)
    weights = None if bag.weights is None else np.insert(bag.weights, places, np.float32(1))
    return Bag(values, _offsets(np.diff(offsets) + empty), weights)


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
