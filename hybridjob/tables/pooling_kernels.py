"""Compiled loops over bags: rows to vectors, and vectors' gradients to rows.

Legend: n rows of D columns lie flat, (n * D,), of any type that hybridjob.tables.data_types.bits_of
gives; the arithmetic is the same for all. B bags hold N ids. A bag's ids are
ids[offsets[b]:offsets[b + 1]], or, where every bag has `width` >= 0 of them, ids[b * width:
(b + 1) * width], and offsets is empty. weights: (N,) float32, or empty for ones.

Indices are unsigned where they are computed: numba would else look for negative ones, in every
turn of the inner loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridjob.tables.jit import compiled, prefetch
from hybridjob.tables.rounding_kernels import nearest, widened

_AHEAD = 8
_LINE = 16
"""Values of a cache line; of 16-bit rows each line is asked for twice, which costs nothing."""
_GRID = 1.5 * 2.0**12
"""Added and taken away again, it rounds a float64 to multiples of 2^-40."""


@compiled
def gather(flat: Any, dim: Any, ids: Any, out: Any) -> None:
    """Copy rows: out (N * D,), of its own type, rounded to nearest if that is another."""
    count = len(ids)
    width = np.uintp(dim)
    for number in range(count):
        if number + _AHEAD < count:
            soon = np.int64(ids[number + _AHEAD]) * dim
            for line in range(0, dim, _LINE):
                prefetch(flat, soon + line)
        source, target = np.uintp(ids[number]) * width, np.uintp(number) * width
        for column in range(width):
            out[target + column] = nearest(flat[source + column], out[target + column])


@compiled
def pool_sums(
    flat: Any, dim: Any, ids: Any, offsets: Any, width: Any, weights: Any, out: Any,
    first: Any, last: Any, mean: Any,
) -> None:  # fmt: skip
    """Sum, or average, the rows of bags first <= b < last: out (B * D,) float32 or float64.

    Sums are taken in float64 of values that are rounded to multiples of 2^-40: they are exact
    below 2^13, so that neither their order nor how a bag is cut over servers changes a bit.
    """
    columns = np.uintp(dim)
    total = np.empty(dim, np.float64)
    end_of_ids = len(ids)
    for bag in range(first, last):
        begin = bag * width if width >= 0 else np.int64(offsets[bag])
        end = begin + width if width >= 0 else np.int64(offsets[bag + 1])
        for column in range(columns):
            total[column] = 0.0
        for place in range(begin, end):
            if place + _AHEAD < end_of_ids:
                soon = np.int64(ids[place + _AHEAD]) * dim
                for line in range(0, dim, _LINE):
                    prefetch(flat, soon + line)
            row = np.uintp(ids[place]) * columns
            if len(weights):
                weight = np.float64(weights[place])
                for column in range(columns):
                    total[column] += (
                        weight * np.float64(widened(flat[row + column])) + _GRID
                    ) - _GRID
            else:
                for column in range(columns):
                    total[column] += (np.float64(widened(flat[row + column])) + _GRID) - _GRID
        target = np.uintp(bag) * columns
        divisor = np.float64(max(end - begin, 1)) if mean else 1.0
        for column in range(columns):
            out[target + column] = total[column] / divisor


@compiled
def pool_largest(flat: Any, dim: Any, ids: Any, offsets: Any, out: Any, winners: Any) -> None:
    """Take each column's largest value of a bag: out (B * D,); an empty bag gives 0.

    winners: (B * D,) int32, the row that each value is of, the first if several; -1 if none.
    """
    columns = np.uintp(dim)
    for bag in range(len(offsets) - 1):
        target = np.uintp(bag) * columns
        for column in range(columns):
            out[target + column] = 0.0
            winners[target + column] = -1
        for place in range(np.int64(offsets[bag]), np.int64(offsets[bag + 1])):
            row = np.uintp(ids[place]) * columns
            for column in range(columns):
                value = widened(flat[row + column])
                if winners[target + column] < 0 or value > out[target + column]:
                    out[target + column] = value
                    winners[target + column] = ids[place]


@compiled
def scatter_sums(gradient: Any, dim: Any, ids: Any, offsets: Any, weights: Any, out: Any) -> None:
    """Add each bag's gradient, (B * D,), to its rows', out (n * D,), in the order of ids."""
    columns = np.uintp(dim)
    for bag in range(len(offsets) - 1):
        source = np.uintp(bag) * columns
        for place in range(np.int64(offsets[bag]), np.int64(offsets[bag + 1])):
            row = np.uintp(ids[place]) * columns
            if len(weights):
                weight = weights[place]
                for column in range(columns):
                    out[row + column] += weight * gradient[source + column]
            else:
                for column in range(columns):
                    out[row + column] += gradient[source + column]


@compiled
def scatter_largest(gradient: Any, dim: Any, winners: Any, out: Any) -> None:
    """Add each value's gradient, (B * D,), to the row that the value is of."""
    for place in range(len(winners)):
        if winners[place] >= 0:
            out[np.int64(winners[place]) * dim + place % dim] += gradient[place]


@compiled
def divide_by_sizes(gradient: Any, dim: Any, offsets: Any) -> None:
    """Turn the gradient of means into that of sums, in place: (B * D,)."""
    for bag in range(len(offsets) - 1):
        size = np.float32(max(offsets[bag + 1] - offsets[bag], 1))
        for place in range(bag * dim, (bag + 1) * dim):
            gradient[place] /= size


@compiled
def finish_sums(sums: Any, dim: Any, offsets: Any, mean: Any, out: Any) -> None:
    """Round sums over all servers, (B * D,) float64, to out, float32; divide if they are means."""
    for bag in range(len(offsets) - 1):
        divisor = np.float64(max(offsets[bag + 1] - offsets[bag], 1)) if mean else 1.0
        for place in range(bag * dim, (bag + 1) * dim):
            out[place] = sums[place] / divisor
