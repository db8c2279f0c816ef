"""The gradients of one table in one step, grouped by row for compiled kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hybridjob.tables import id_kernels, update_kernels
from hybridjob.tables.wire import ROWS, cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hybridjob.tables.shard import Shard
    from hybridjob.tables.wire import Cut, Question

_NO_OFFSETS = np.empty(0, np.int32)
_NO_WEIGHTS = np.empty(0, np.float32)
_LEAST_IDS = 2048
"""Fewer are not worth a thread of their own."""
_LANE_IDS, _MOST_LANES = 14_000, 64
"""Of so many ids the table of distinct ones fits a processor's second cache."""
_UPDATES: dict[str, Any] = {
    "sgd": update_kernels.update_sgd,
    "adagrad": update_kernels.update_adagrad,
    "rowwise_adagrad": update_kernels.update_rowwise_adagrad,
    "adam": update_kernels.update_adam,
}


class Group:
    """The ids of one table in one step, M of them, of all trainers, cut into lanes.

    parts: cuts of the questions, and where the gradient of each begins among all trainers'.
    """

    def __init__(self, shard: Shard, parts: list[tuple[Cut, int]], num_threads: int) -> None:
        self.shard, self._parts = shard, parts
        self._count = sum(one.part.num_ids for one, _ in parts)
        most = max(num_threads, self._count // _LANE_IDS) if self._count > _LEAST_IDS else 1
        self.lanes = [Lane(self, number) for number in range(min(most, _MOST_LANES))]

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


class Lane:
    """Some of a table's rows, which one thread updates. unique: (U,) those of this step."""

    def __init__(self, group: Group, number: int) -> None:
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
        self.unique, self._begins = unique[:count], begins[:count]
        self._repeated, self._firsts = repeated[:repeats], firsts[:repeats]
        self.num_sums = repeats

    def preserve(self) -> None:
        """Have an open snapshot keep what the rows are now."""
        self.group.shard.preserve(torch.from_numpy(self.unique))

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
            self.unique, self._begins, gradients, np.uint64(shard.key_of_step(step)), shard.start,
            *(np.float32(one) for one in optimizer.scalars(step)),
        )  # fmt: skip
        self.newly_touched = id_kernels.mark(self.unique, shard.touched_flags)


def groups_of(
    shards: Sequence[Shard], questions: Sequence[Question], num_threads: int
) -> list[Group]:
    """Sort the parts of all trainers' questions by table; tables that nobody asked are left out."""
    parts: list[list[tuple[Cut, int]]] = [[] for _ in shards]
    begin = 0
    for question in questions:
        for one in cut(question):
            parts[one.part.table].append((one, begin))
            begin += one.size
    return [
        Group(shard, own, num_threads)
        for shard, own in zip(shards, parts, strict=True)
        if any(one.part.num_ids for one, _ in own)
    ]
