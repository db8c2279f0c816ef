"""Encoded rows as columns in numpy, and how rows are taken out of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Bag:
    """Ids of one feature for n rows.

    values: (N,) int64. weights: (N,) float32 or None. offsets: (n + 1,) int64; or None if each
    row has exactly `width` ids, so that N = n * width.
    """

    values: NDArray[np.int64]
    offsets: NDArray[np.int64] | None = None
    weights: NDArray[np.float32] | None = None
    width: int = 1

    def all_offsets(self) -> NDArray[np.int64]:
        """Give offsets (n + 1,) also where the width is fixed."""
        if self.offsets is not None:
            return self.offsets
        return np.arange(0, len(self.values) + 1, self.width, dtype=np.int64)


@dataclass(frozen=True)
class Rows:
    """n encoded rows. dense: (n, F) float32. labels: (n,) float32 or int64."""

    dense: NDArray[np.float32]
    labels: NDArray[Any]
    bags: dict[str, Bag]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_bytes(self) -> int:
        """Memory that the arrays take."""
        total = self.dense.nbytes + self.labels.nbytes
        for bag in self.bags.values():
            for array in (bag.values, bag.offsets, bag.weights):
                total += 0 if array is None else array.nbytes
        return total


def take_bag(bag: Bag, rows: NDArray[np.int64]) -> Bag:
    """Pick rows (m,) by number, repeats allowed."""
    if bag.offsets is None:
        return Bag(
            _take_fixed(bag.values, rows, bag.width),
            weights=None if bag.weights is None else _take_fixed(bag.weights, rows, bag.width),
            width=bag.width,
        )
    starts = bag.offsets[:-1][rows]
    lengths = bag.offsets[1:][rows] - starts
    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    places = np.arange(offsets[-1], dtype=np.int64)
    places += np.repeat(starts - offsets[:-1], lengths)
    return Bag(bag.values[places], offsets, None if bag.weights is None else bag.weights[places])


def take(rows: Rows, numbers: NDArray[np.int64]) -> Rows:
    """Pick rows (m,) by number."""
    return Rows(
        rows.dense[numbers],
        rows.labels[numbers],
        {name: take_bag(bag, numbers) for name, bag in rows.bags.items()},
    )


def slice_rows(rows: Rows, begin: int, end: int) -> Rows:
    """Cut rows out without copying them (but offsets)."""
    return Rows(
        rows.dense[begin:end],
        rows.labels[begin:end],
        {name: _slice_bag(bag, begin, end) for name, bag in rows.bags.items()},
    )


def concatenate(parts: Sequence[Rows]) -> Rows:
    """Put rows of the same columns one after another; at least one part."""
    if len(parts) == 1:
        return parts[0]
    return Rows(
        np.concatenate([part.dense for part in parts]),
        np.concatenate([part.labels for part in parts]),
        {name: _concatenate_bags([part.bags[name] for part in parts]) for name in parts[0].bags},
    )


def _concatenate_bags(bags: Sequence[Bag]) -> Bag:
    values = np.concatenate([bag.values for bag in bags])
    weights = [bag.weights for bag in bags if bag.weights is not None]
    joined = np.concatenate(weights) if len(weights) == len(bags) else None
    if all(bag.offsets is None and bag.width == bags[0].width for bag in bags):
        return Bag(values, None, joined, bags[0].width)
    offsets = [np.zeros(1, dtype=np.int64)]
    total = 0
    for bag in bags:
        offsets.append(bag.all_offsets()[1:] + total)
        total += len(bag.values)
    return Bag(values, np.concatenate(offsets), joined)


def _take_fixed(values: NDArray[Any], rows: NDArray[np.int64], width: int) -> NDArray[Any]:
    if width == 1:
        return values[rows]
    return values.reshape(-1, width)[rows].reshape(-1)


def _slice_bag(bag: Bag, begin: int, end: int) -> Bag:
    if bag.offsets is None:
        ids, offsets = slice(begin * bag.width, end * bag.width), None
    else:
        ids = slice(int(bag.offsets[begin]), int(bag.offsets[end]))
        offsets = bag.offsets[begin : end + 1] - bag.offsets[begin]
    weights = None if bag.weights is None else bag.weights[ids]
    return Bag(bag.values[ids], offsets, weights, bag.width)
