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
_LANE_IDS, _MOST_LANES = 16_384, 64
"""Of so many ids the table of distinct ones fits a processor's second cache."""
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
        self._buffer = np.empty(0, np.float32)  # new memory, page by page, would take longer

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
        groups = _groups(shards, [question for question, _ in pushes], self._workers.num_threads)
        self._workers.run([group.deal for group in groups])
        lanes = [lane for group in groups for lane in group.lanes]
        self._workers.run([lane.link for lane in lanes])
        gradients, ends = self._joined(lanes, [gradient for _, gradient in pushes])
        for lane in lanes:
            lane.preserve()
        self._workers.run([functools.partial(one.update, gradients, ends, step) for one in lanes])
        for lane in lanes:
            lane.group.shard.num_touched += lane.newly_touched

    def _joined(self, lanes: Sequence[_Lane], pushes: Sequence[Tensor]) -> tuple[Any, Any]:
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


class _Group:
    """The ids of one table in one step, M of them, of all trainers, cut into lanes.

    parts: cuts of the questions, and where the gradient of each begins among all trainers'.
    """

    def __init__(self, shard: Shard, parts: list[tuple[Cut, int]], num_threads: int) -> None:
        self.shard, self._parts = shard, parts
        self._count = sum(one.part.num_ids for one, _ in parts)
        most = max(num_threads, self._count // _LANE_IDS) if self._count > _LEAST_ROWS else 1
        self.lanes = [_Lane(self, number) for number in range(min(most, _MOST_LANES))]

    def deal(self) -> None:
        """Deal the ids to lanes."""
        parts = [(one, one.ids.numpy(), begin) for one, begin in self._parts]
        counts = np.zeros(len(self.lanes), np.int64)
        for _, ids, _ in parts:
            id_kernels.count_lanes(ids, counts)
        self._cuts = np.concatenate([[0], np.cumsum(counts)])
        weighted = any(one.weights is not None for one, _ in self._parts)
        self._ids = np.empty(self._count, parts[0][1].dtype)
        self._starts = np.empty(self._count, np.int64)
        self._weights = np.empty(self._count if weighted else 0, np.float32)
        filled = self._cuts[:-1].copy()
        for one, ids, begin in parts:
            id_kernels.deal_lanes(
                ids, _NO_OFFSETS if one.offsets is None else one.offsets.numpy(),
                1 if one.part.width == ROWS else one.part.width,
                _NO_WEIGHTS if one.weights is None else one.weights.numpy(),
                one.part.dim, begin, filled, self._ids, self._starts, self._weights,
            )  # fmt: skip

    def of_lane(self, number: int) -> tuple[Any, Any, Any]:
        """Give a lane's ids, where the gradient of each begins, and weights, maybe none."""
        begin, end = self._cuts[number : number + 2]
        return self._ids[begin:end], self._starts[begin:end], self._weights[begin:end]


class _Lane:
    """Some of a table's rows, which one thread updates."""

    def __init__(self, group: _Group, number: int) -> None:
        self.group, self._number = group, number
        self.num_sums = self.newly_touched = self.room = 0

    def link(self) -> None:
        """Find the distinct rows, and where the gradients of each begin."""
        ids, self._starts, self._weights = self.group.of_lane(self._number)
        unique, begins = np.empty(len(ids), ids.dtype), np.empty(len(ids), np.int64)
        self._following, repeated, firsts = np.empty((3, len(ids)), np.int32)
        every = len(self._weights) > 0  # all must be weighed, also those that stand alone
        count, repeats = id_kernels.chain(
            ids, self._starts, every, unique, begins, self._following, repeated, firsts
        )
        self._unique, self._begins = unique[:count], begins[:count]
        self._repeated, self._firsts = repeated[:repeats], firsts[:repeats]
        self.num_sums = repeats

    def preserve(self) -> None:
        """Have an open snapshot keep what the rows are now."""
        self.group.shard.preserve(torch.from_numpy(self._unique))

    def update(self, gradients: Any, ends: Any, step: int) -> None:
        """Sum each row's gradients, and change the rows."""
        shard = self.group.shard
        dim, optimizer = shard.table.embedding_dim, shard.optimizer
        update_kernels.sum_gradients(
            dim, self._repeated, self._firsts, self._following, self._starts, self._weights, ends,
            gradients, self.room, self._begins,
        )  # fmt: skip
        _UPDATES[optimizer.name](
            shard.flat, *(one.numpy().reshape(-1) for one in optimizer.state.values()), dim,
            self._unique, self._begins, gradients,
            *(np.float32(one) for one in optimizer.scalars(step)),
        )  # fmt: skip
        self.newly_touched = id_kernels.mark(self._unique, shard.touched_flags)


def _check(shard: Shard, one: Cut) -> None:
    """Raise TableError for an id, or an offset, that would lead out of the shard's memory."""
    ids = one.ids.numpy()
    if len(ids):
        shard.check_bounds(*id_kernels.bounds_of(ids))
    if one.offsets is not None:
        offsets = one.offsets.numpy()
        if offsets[0] != 0 or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
            raise TableError(f"offsets of bags of table {shard.table.name!r} do not fit their ids")


def _groups(
    shards: Sequence[Shard], questions: Sequence[Question], num_threads: int
) -> list[_Group]:
    parts: list[list[tuple[Cut, int]]] = [[] for _ in shards]
    begin = 0
    for question in questions:
        for one in cut(question):
            parts[one.part.table].append((one, begin))
            begin += one.size
    return [
        _Group(shard, own, num_threads)
        for shard, own in zip(shards, parts, strict=True)
        if any(one.part.num_ids for one, _ in own)
    ]
