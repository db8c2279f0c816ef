"""The server's side of the tables, by compiled kernels: see hybridjob.tables.torch_server."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hybridjob.errors import TableError
from hybridjob.tables import id_kernels, pooling_kernels
from hybridjob.tables.data_types import bits_of
from hybridjob.tables.lanes import groups_of
from hybridjob.tables.wire import ROWS, cut
from hybridjob.tables.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from hybridjob.tables.lanes import Lane
    from hybridjob.tables.shard import Shard
    from hybridjob.tables.wire import Cut, Question

_NO_OFFSETS = np.empty(0, np.int32)
_NO_WEIGHTS = np.empty(0, np.float32)
_LEAST_BAGS, _LEAST_ROWS = 256, 2048
"""Fewer are not worth a thread of their own."""


class CompiledServer:
    """Looks up, pools, and updates.

    A row's new value depends on the gradients alone, never on how rows are dealt to threads.
    """

    name = "numba"

    def __init__(self, num_threads: int) -> None:
        self._workers = Workers(num_threads)
        self._buffer = np.empty(0, np.float32)  # new memory, page by page, would take longer

    def answer(
        self, shards: Sequence[Shard], question: Question, *, partial: bool
    ) -> tuple[Tensor, Tensor]:
        """Give pooled vectors and rows, in the question's type.

        partial: float64 sums of this server's rows alone instead of vectors.
        """
        parts = cut(question)
        for one in parts:
            _check(shards[one.part.table], one)
        sizes = [0, 0]
        for one in parts:
            sizes[one.part.width == ROWS] += one.size
        sums = torch.empty(sizes[0], dtype=torch.float64 if partial else torch.float32)
        rows = torch.empty(sizes[1], dtype=question.value_type)
        ends = [0, 0]
        work: list[Callable[[], object]] = []
        for one in parts:
            is_rows = one.part.width == ROWS
            begin, ends[is_rows] = ends[is_rows], ends[is_rows] + one.size
            out = bits_of(rows if is_rows else sums)[begin : begin + one.size]
            shard = shards[one.part.table]
            if is_rows:
                work += self._gather(shard, one, out)
            else:
                mean = shard.table.pooling == "mean" and not partial
                work += self._pool(shard, one, out, question.bags, mean=mean)
        self._workers.run(work)
        return sums if partial else sums.to(question.value_type), rows

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
        groups = groups_of(shards, [question for question, _ in pushes], self._workers.num_threads)
        self._workers.run([group.deal for group in groups])
        lanes = [lane for group in groups for lane in group.lanes]
        self._workers.run([lane.link for lane in lanes])
        gradients, ends = self._joined(lanes, [gradient for _, gradient in pushes])
        for lane in lanes:
            lane.preserve()
        self._workers.run([functools.partial(one.update, gradients, ends, step) for one in lanes])
        for lane in lanes:
            lane.group.shard.num_touched += lane.newly_touched

    def _joined(self, lanes: Sequence[Lane], pushes: Sequence[Tensor]) -> tuple[Any, Any]:
        """Put all trainers' gradients into one buffer, with room for sums; and where each ends."""
        ends = np.cumsum([len(one) for one in pushes])
        room = int(ends[-1])
        for lane in lanes:
            lane.room = room
            room += lane.num_sums * lane.group.shard.table.embedding_dim
        if len(self._buffer) < room:
            self._buffer = np.empty(room + room // 8, np.float32)
        begin = 0
        for one, end in zip(pushes, ends, strict=True):
            self._buffer[begin:end] = one.numpy()
            begin = end
        return self._buffer, ends


def _check(shard: Shard, one: Cut) -> None:
    """Raise TableError for an id, or an offset, that would lead out of the shard's memory."""
    ids = one.ids.numpy()
    if len(ids):
        shard.check_bounds(*id_kernels.bounds_of(ids))
    if one.offsets is not None:
        offsets = one.offsets.numpy()
        if offsets[0] != 0 or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
            raise TableError(f"offsets of bags of table {shard.table.name!r} do not fit their ids")
