"""Ids with Zipf's distribution, any number of them, without a table.

Rejection-inversion: W. Hormann and G. Derflinger, Rejection-inversion to generate variates from
monotone discrete distributions, ACM TOMACS 6(3), 1996.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NEAR_ONE = 1e-9


def sample_zipf(
    generator: np.random.Generator, exponent: float, cardinality: int, count: int
) -> NDArray[np.int64]:
    """Draw (count,) ids, 0 <= id < cardinality, with P(id) proportional to (id + 1) ** -exponent.

    exponent 0 is uniform.
    """
    if exponent == 0 or cardinality == 1:
        return generator.integers(0, cardinality, size=count, dtype=np.int64)
    ids = np.empty(count, dtype=np.int64)
    todo = count
    while todo:
        drawn = _draw(generator, exponent, cardinality, todo)
        ids[count - todo : count - todo + len(drawn)] = drawn
        todo -= len(drawn)
    return ids


def _draw(
    generator: np.random.Generator, exponent: float, cardinality: int, count: int
) -> NDArray[np.int64]:
    """Draw up to count ids: those that are accepted of count tries."""
    lowest = _integral(np.float64(1.5), exponent) - 1.0
    highest = _integral(np.float64(cardinality + 0.5), exponent)
    areas = highest + generator.random(count) * (lowest - highest)
    points = _inverse_integral(areas, exponent)
    ranks = np.clip(np.rint(points), 1, cardinality)
    # Points this near to their rank need no test.
    near = 2.0 - _inverse_integral(
        _integral(np.float64(2.5), exponent) - np.float64(2.0) ** -exponent, exponent
    )
    accepted = ranks - points <= near
    accepted |= areas >= _integral(ranks + 0.5, exponent) - ranks**-exponent
    kept: NDArray[np.int64] = ranks[accepted].astype(np.int64) - 1
    return kept


def _integral(x: Any, exponent: float) -> Any:
    """Integrate t ** -exponent from 1 to x."""
    if abs(1 - exponent) < _NEAR_ONE:
        return np.log(x)
    return np.expm1((1 - exponent) * np.log(x)) / (1 - exponent)


def _inverse_integral(y: Any, exponent: float) -> Any:
    if abs(1 - exponent) < _NEAR_ONE:
        return np.exp(y)
    # Rounding may carry the argument below -1, where the logarithm ends.
    inner = np.maximum((1 - exponent) * y, -1 + np.finfo(np.float64).eps)
    return np.exp(np.log1p(inner) / (1 - exponent))
