"""The server's side of the tables in plain torch: the reference, and where numba is missing.

Trainers ask it for rows alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from hybridjob.tables.wire import cut, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from hybridjob.tables.shard import Shard
    from hybridjob.tables.wire import Question


class TorchServer:
    """Looks up, and updates."""

    name = "torch"

    def answer(
        self, shards: Sequence[Shard], question: Question, *, partial: bool
    ) -> tuple[Tensor, Tensor]:
        """Give no sums, and the rows that were asked for: (S,) of the question's type."""
        del partial
        dtype = question.value_type
        rows = [
            shards[one.part.table].lookup(one.ids.long()).view(-1).to(dtype)
            for one in cut(question)
        ]
        return torch.empty(0, dtype=dtype), joined(rows, dtype)

    def apply(
        self, shards: Sequence[Shard], pushes: Sequence[tuple[Question, Tensor]], step: int
    ) -> None:
        """Take one step of the optimizer with the sum of several trainers' gradients, in order.

        pushes: per trainer what it had asked, and the gradient, (S,) float32, in that order.
        """
        ids: list[list[Tensor]] = [[] for _ in shards]
        gradients: list[list[Tensor]] = [[] for _ in shards]
        for question, gradient in pushes:
            begin = 0
            for one in cut(question):
                ids[one.part.table].append(one.ids.long())
                rows = gradient[begin : begin + one.size].view(-1, one.part.dim)
                gradients[one.part.table].append(rows)
                begin += one.size
        for shard, own_ids, own in zip(shards, ids, gradients, strict=True):
            shard.update(own_ids, own, step)
