"""The rows of one table that one server holds, with their optimizer."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch

from hybridjob.errors import TableError
from hybridjob.tables.initial import initial_rows
from hybridjob.tables.optimizers import make_optimizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from hybridjob.config import TableOptimizer
    from hybridjob.schema import Table


class Shard:
    """Rows start <= row < stop of a table. All ids here are local: row - start."""

    def __init__(
        self, table: Table, optimizer: TableOptimizer, *, seed: int, start: int, stop: int
    ) -> None:
        self.table, self.start, self.stop = table, start, stop
        self.rows = initial_rows(table, seed=seed, start=start, stop=stop)
        self.optimizer = make_optimizer(optimizer, num_rows=stop - start, dim=table.embedding_dim)
        self._lock = threading.Lock()

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Rows and optimizer state, in a fixed order; the first dimension is the shard's rows."""
        return {"rows": self.rows, **self.optimizer.state}

    @property
    def num_bytes(self) -> int:
        """Memory of rows and optimizer state."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def lookup(self, ids: Tensor) -> Tensor:
        """Gather rows, (U,) int64 -> (U, D) float32, in the order asked.

        Raises TableError naming the first id that is out of range.
        """
        self._check(ids)
        with self._lock:
            return self.rows.index_select(0, ids)

    def update(self, ids: Sequence[Tensor], gradients: Sequence[Tensor], step: int) -> None:
        """Apply one step to the sum of several trainers' gradients, in the order given.

        ids: per trainer (U,) int64, ascending, no duplicates within a trainer.
        gradients: per trainer (U, D) float32. step: counts from 1.
        """
        for part in ids:
            self._check(part)
        merged_ids, merged = _sum_duplicates(ids, gradients)
        if merged_ids.numel():
            with self._lock:
                self.optimizer.update(self.rows, merged_ids, merged, step)

    def _check(self, ids: Tensor) -> None:
        if ids.numel() == 0:
            return
        low, high = (int(bound) for bound in torch.aminmax(ids))
        if low < 0 or high >= self.stop - self.start:
            bad = self.start + (low if low < 0 else high)
            raise TableError(
                f"id {bad} is out of range of table {self.table.name!r}: this server holds rows "
                f"{self.start} to {self.stop - 1}"
            )


def _sum_duplicates(ids: Sequence[Tensor], gradients: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    if len(ids) == 1:
        return ids[0], gradients[0]
    unique, inverse = torch.unique(torch.cat(list(ids)), return_inverse=True)
    total = gradients[0].new_zeros(unique.numel(), gradients[0].shape[1])
    # One trainer after the other: the order of a float sum must not depend on who was first.
    for part, gradient in zip(inverse.split([one.numel() for one in ids]), gradients, strict=True):
        total.index_add_(0, part, gradient)
    return unique, total
