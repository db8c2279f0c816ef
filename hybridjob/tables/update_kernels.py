"""Compiled optimizer steps: each changes the rows `unique`, whose gradients are summed.

Legend: the table's n rows of D columns lie flat, (n * D,), of any type that
hybridjob.tables.data_types.bits_of gives, and so does their state, float32. The gradient of row
unique[u] is gradients[begins[u]:begins[u] + D]. The arithmetic is float32, formula by formula that
of hybridjob.tables.optimizers. Rows of 16 bits are rounded by chance, which comes from the step's
key and their number in the whole table, first_row + unique[u].

Calls with arrays within a loop over rows would count references at each: so lines are repeated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridjob.tables.jit import compiled, prefetch
from hybridjob.tables.rounding_kernels import key_of_row, lowered

_AHEAD = 8
_LINE = 16


@compiled
def sum_gradients(
    dim: Any, repeated: Any, firsts: Any, following: Any, starts: Any, weights: Any, ends: Any,
    gradients: Any, room: Any, begins: Any,
) -> None:  # fmt: skip
    """Sum the gradients of rows that have several, at gradients[room:], and note it in begins.

    repeated: (R,) numbers of rows in begins. firsts: (R,), following: (M,) link the places of each
    row's gradients, which begin at starts, (M,), and weigh weights, (M,) or empty. Trainer t's lie
    before ends[t]. A sum is that over the trainers, in their order, of each one's own, in the order
    of its ids: the same bits whether the trainer sums or the server does.
    """
    columns = np.uintp(dim)
    own = np.empty(dim, np.float32)
    nothing = np.float32(-0.0)  # what adds nothing, not even a sign
    for number in range(len(repeated)):
        begins[repeated[number]] = room
        target = np.uintp(room)
        room += dim
        for column in range(columns):
            gradients[target + column] = nothing
        place = firsts[number]
        trainer = 0
        while starts[place] >= ends[trainer]:
            trainer += 1
        while place >= 0 and starts[place] < ends[trainer]:
            begin = np.uintp(starts[place])
            weight = weights[place] if len(weights) else np.float32(1)
            for column in range(columns):
                gradients[target + column] += weight * gradients[begin + column]
            place = following[place]
        while place >= 0:
            while starts[place] >= ends[trainer]:
                trainer += 1
            for column in range(columns):
                own[column] = nothing
            while place >= 0 and starts[place] < ends[trainer]:
                begin = np.uintp(starts[place])
                weight = weights[place] if len(weights) else np.float32(1)
                for column in range(columns):
                    own[column] += weight * gradients[begin + column]
                place = following[place]
            for column in range(columns):
                gradients[target + column] += own[column]


@compiled
def update_sgd(
    rows: Any, dim: Any, unique: Any, begins: Any, gradients: Any, key: Any, first_row: Any,
    rate: Any,
) -> None:  # fmt: skip
    """Take w -= lr g."""
    columns = np.uintp(dim)
    for number in range(len(unique)):
        if number + _AHEAD < len(unique):
            soon = np.int64(unique[number + _AHEAD]) * dim
            for line in range(0, dim, _LINE):
                prefetch(rows, soon + line)
        row, begin = np.uintp(unique[number]) * columns, np.uintp(begins[number])
        chance = key_of_row(key, first_row + np.int64(unique[number]))
        for column in range(columns):
            change = rate * gradients[begin + column]
            rows[row + column] = lowered(rows[row + column], change, chance, column)


@compiled
def update_adagrad(
    rows: Any, sums: Any, dim: Any, unique: Any, begins: Any, gradients: Any,
    key: Any, first_row: Any, rate: Any, eps: Any,
) -> None:  # fmt: skip
    """Take s += g^2; w -= lr g / (sqrt(s) + eps)."""
    columns = np.uintp(dim)
    for number in range(len(unique)):
        if number + _AHEAD < len(unique):
            soon = np.int64(unique[number + _AHEAD]) * dim
            for line in range(0, dim, _LINE):
                prefetch(rows, soon + line)
                prefetch(sums, soon + line)
        row, begin = np.uintp(unique[number]) * columns, np.uintp(begins[number])
        chance = key_of_row(key, first_row + np.int64(unique[number]))
        for column in range(columns):
            value = gradients[begin + column]
            square = sums[row + column] + value * value
            sums[row + column] = square
            change = rate * (value / (np.sqrt(square) + eps))
            rows[row + column] = lowered(rows[row + column], change, chance, column)


@compiled
def update_rowwise_adagrad(
    rows: Any, sums: Any, dim: Any, unique: Any, begins: Any, gradients: Any,
    key: Any, first_row: Any, rate: Any, eps: Any,
) -> None:  # fmt: skip
    """Take s += mean(g^2), one s a row; w -= lr g / (sqrt(s) + eps)."""
    columns = np.uintp(dim)
    lanes = np.empty(8, np.float32)
    for number in range(len(unique)):
        if number + _AHEAD < len(unique):
            prefetch(sums, np.int64(unique[number + _AHEAD]))
            soon = np.int64(unique[number + _AHEAD]) * dim
            for line in range(0, dim, _LINE):
                prefetch(rows, soon + line)
        row, begin = np.uintp(unique[number]) * columns, np.uintp(begins[number])
        chance = key_of_row(key, first_row + np.int64(unique[number]))
        # Eight sums side by side, in a fixed order: one alone would wait for itself each time.
        for lane in range(8):
            lanes[lane] = 0.0
        for column in range(np.uintp(0), columns // np.uintp(8) * np.uintp(8), np.uintp(8)):
            for lane in range(np.uintp(8)):
                value = gradients[begin + column + lane]
                lanes[lane] += value * value
        for column in range(columns // np.uintp(8) * np.uintp(8), columns):
            value = gradients[begin + column]
            lanes[0] += value * value
        norm = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + (
            (lanes[4] + lanes[5]) + (lanes[6] + lanes[7])
        )
        square = sums[unique[number]] + norm / np.float32(dim)
        sums[unique[number]] = square
        root = np.sqrt(square) + eps
        for column in range(columns):
            change = rate * (gradients[begin + column] / root)
            rows[row + column] = lowered(rows[row + column], change, chance, column)


@compiled
def update_adam(
    rows: Any, means: Any, squares: Any, dim: Any, unique: Any, begins: Any, gradients: Any,
    key: Any, first_row: Any, rate: Any, eps: Any,
    rest1: Any, decay2: Any, rest2: Any,
) -> None:  # fmt: skip
    """Take Adam's step; rate holds the bias corrections, rest is 1 - decay.

    In float32 the difference would be off by 1e-5 of itself.
    """
    columns = np.uintp(dim)
    for number in range(len(unique)):
        if number + _AHEAD < len(unique):
            soon = np.int64(unique[number + _AHEAD]) * dim
            for line in range(0, dim, _LINE):
                prefetch(rows, soon + line)
                prefetch(means, soon + line)
                prefetch(squares, soon + line)
        row, begin = np.uintp(unique[number]) * columns, np.uintp(begins[number])
        chance = key_of_row(key, first_row + np.int64(unique[number]))
        for column in range(columns):
            value = gradients[begin + column]
            mean = means[row + column]
            mean += rest1 * (value - mean)
            square = squares[row + column] * decay2
            square += rest2 * value * value
            means[row + column] = mean
            squares[row + column] = square
            change = rate * (mean / (np.sqrt(square) + eps))
            rows[row + column] = lowered(rows[row + column], change, chance, column)
