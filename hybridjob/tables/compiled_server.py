"""The server's side of the tables, by compiled kernels: see hybridjob.tables.torch_server."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hybridjob.errors import TableError
from hybridjob.tables import id_kernels, pooling_kernels, update_kernels
from hybridjob.tables.wire import ROWS, cut
from hybridjob.tables.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from hybridjob.tables.shard import Shard
    from hybridjob.tables.wire import Cut, Question

_NO_OFFSETS = np.empty(0, np.int32)
_NO_WEIGHTS = np.empty(0, np.float32)
_LEAST_BAGS, _LEAST_ROWS = 256, 2048
"""Fewer are not worth a thread of their own."""
_UPDATES: dict[str, Any] = {
    "sgd": update_kernels.update_sgd,
    "adagrad": update_kernels.update_adagrad,
    "rowwise_adagrad": update_kernels.update_rowwise_adagrad,
    "adam": update_kernels.update_adam,
}


class CompiledServer:
    """Looks up, pools, and updates.

    A row's new value depends on the gradients alone, never on how rows are dealt to threads.
    """

    name = "numba"

    def __init__(self, num_threads: int) -> None:
        self._workers = Workers(num_threads)

    def answer(
        self, shards: Sequence[Shard], question: Question, *, partial: bool
    ) -> tuple[Tensor, Tensor]:
        """Give pooled vectors (partial: float64 sums of this server's rows alone) and rows."""
        parts = cut(question)
        for one in parts:
            _check(shards[one.part.table], one)
        sizes = [0, 0]
        for one in parts:
            sizes[one.part.width == ROWS] += one.size
        sums = torch.empty(sizes[0], dtype=torch.float64 if partial else torch.float32)
        rows = torch.empty(sizes[1])
        ends = [0, 0]
        work: list[Callable[[], object]] = []
        for one in parts:
            is_rows = one.part.width == ROWS
            begin, ends[is_rows] = ends[is_rows], ends[is_rows] + one.size
            out = (rows if is_rows else sums).numpy()[begin : begin + one.size]
            shard = shards[one.part.table]
            if is_rows:
                work += self._gather(shard, one, out)
            else:
                mean = shard.table.pooling == "mean" and not partial
                work += self._pool(shard, one, out, question.bags, mean=mean)
        self._workers.run(work)
        return sums, rows

    def _gather(self, shard: Shard, one: Cut, out: Any) -> list[Callable[[], object]]:
        flat, ids, dim = shard.flat, one.ids.numpy(), one.part.dim
        return [
            functools.partial(
                pooling_kernels.gather, flat, dim, ids[low:high], out[low * dim : high * dim]
            )
            for low, high in self._workers.ranges(len(ids), _LEAST_ROWS)
        ]

    def _pool(
        self, shard: Shard, one: Cut, out: Any, bags: int, *, mean: bool
    ) -> list[Callable[[], object]]:
        offsets = _NO_OFFSETS if one.offsets is None else one.offsets.numpy()
        weights = _NO_WEIGHTS if one.weights is None else one.weights.numpy()
        return [
            functools.partial(
                pooling_kernels.pool_sums,
                shard.flat, one.part.dim, one.ids.numpy(), offsets, one.part.width, weights, out,
                low, high, mean,
            )
            for low, high in self._workers.ranges(bags, _LEAST_BAGS)
        ]  # fmt: skip

    def apply(
        self,
        shards: Sequence[Shard],
        pushes: Sequence[tuple[Question, Tensor]],
        step: int,
    ) -> None:
        """Take one step of the optimizer with the sum of several trainers' gradients, in order.

        pushes: per trainer what it had asked, and the gradient, (S,) float32, in that order.
        """
        groups = _groups(shards, [question for question, _ in pushes])
        self._workers.run([group.link for group in groups])
        gradients, ends = _joined(groups, [gradient for _, gradient in pushes])
        self._workers.run([functools.partial(one.sum, gradients, ends) for one in groups])
        self._workers.run(
            [
                functools.partial(group.update, gradients, step, low, high)
                for group in groups
                for low, high in self._workers.ranges(group.count, _LEAST_ROWS)
            ]
        )
        for group in groups:
            group.shard.num_touched += group.newly_touched


class _Group:
    """The ids of one table in one step, grouped by row.

    parts: cuts of the questions, and where the gradient of each begins among all trainers'.
    """

    def __init__(self, shard: Shard, parts: list[tuple[Cut, int]]) -> None:
        self.shard, self._parts = shard, parts
        self.count = self.newly_touched = self.num_sums = self.room = 0

    def link(self) -> None:
        """Find the distinct rows, and where the gradients of each begin."""
        ids = _concatenated([one.ids.numpy() for one, _ in self._parts])
        self._starts, self._weights = np.empty(len(ids), np.int64), _weights(self._parts)
        at = 0
        for one, begin in self._parts:
            offsets = _NO_OFFSETS if one.offsets is None else one.offsets.numpy()
            width = 1 if one.part.width == ROWS else one.part.width
            count = one.part.num_ids
            starts = self._starts[at : at + count]
            id_kernels.place_gradients(starts, count, offsets, width, one.part.dim, begin)
            at += count
        unique, first = np.empty_like(ids), np.empty(len(ids), np.int32)
        self._following = np.empty(len(ids), np.int32)
        self.count, repeated = id_kernels.chain(ids, unique, first, self._following)
        self._unique, self._first = unique[: self.count], first[: self.count]
        self.num_sums = self.count if len(self._weights) else repeated
        self.newly_touched = id_kernels.mark(self._unique, self.shard.touched_flags)

    def sum(self, gradients: Any, ends: Any) -> None:
        """Sum each row's gradients."""
        self._begins = np.empty(self.count, np.int64)
        update_kernels.sum_gradients(
            self.shard.table.embedding_dim, self._first, self._following, self._starts,
            self._weights, ends, gradients, self.room, self._begins,
        )  # fmt: skip

    def update(self, gradients: Any, step: int, low: int, high: int) -> None:
        """Change some of the rows."""
        optimizer = self.shard.optimizer
        _UPDATES[optimizer.name](
            self.shard.flat, *(one.numpy().reshape(-1) for one in optimizer.state.values()),
            self.shard.table.embedding_dim, self._unique, self._begins, gradients, low, high,
            *(np.float32(one) for one in optimizer.scalars(step)),
        )  # fmt: skip


def _check(shard: Shard, one: Cut) -> None:
    """Raise TableError for an id, or an offset, that would lead out of the shard's memory."""
    ids = one.ids.numpy()
    if len(ids):
        shard.check_bounds(*id_kernels.bounds_of(ids))
    if one.offsets is not None:
        offsets = one.offsets.numpy()
        if offsets[0] != 0 or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
            raise TableError(f"offsets of bags of table {shard.table.name!r} do not fit their ids")


def _groups(shards: Sequence[Shard], questions: Sequence[Question]) -> list[_Group]:
    parts: list[list[tuple[Cut, int]]] = [[] for _ in shards]
    begin = 0
    for question in questions:
        for one in cut(question):
            parts[one.part.table].append((one, begin))
            begin += one.size
    return [
        _Group(shard, own)
        for shard, own in zip(shards, parts, strict=True)
        if any(one.part.num_ids for one, _ in own)
    ]


def _joined(groups: Sequence[_Group], pushes: Sequence[Tensor]) -> tuple[Any, Any]:
    """Put all trainers' gradients into one buffer, with room for the sums; and where each ends."""
    ends = np.cumsum([len(one) for one in pushes])
    room = int(ends[-1])
    for group in groups:
        group.room = room
        room += group.num_sums * group.shard.table.embedding_dim
    gradients = np.empty(room, np.float32)
    begin = 0
    for one, end in zip(pushes, ends, strict=True):
        gradients[begin:end] = one.numpy()
        begin = end
    return gradients, ends


def _weights(parts: Sequence[tuple[Cut, int]]) -> Any:
    if all(one.weights is None for one, _ in parts):
        return _NO_WEIGHTS
    return _concatenated(
        [
            np.ones(one.part.num_ids, np.float32) if one.weights is None else one.weights.numpy()
            for one, _ in parts
        ]
    )


def _concatenated(arrays: list[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
