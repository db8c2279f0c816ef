"""The rows of one table that one server holds, with their optimizer."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch

from hybridjob.checkpoint.memory import fits
from hybridjob.errors import TableError
from hybridjob.tables.data_types import bits_of, torch_type
from hybridjob.tables.initial import initial_rows
from hybridjob.tables.memory import empty
from hybridjob.tables.optimizers import make_optimizer
from hybridjob.tables.rounding import key_of_step, round_by_chance
from hybridjob.tables.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from hybridjob.config import TableOptimizer
    from hybridjob.schema import Table


class Shard:
    """Rows start <= row < stop of a table. All ids here are local: row - start.

    blank: leave the rows undefined, for a checkpoint to fill. lock: who changes rows, or takes a
    snapshot, holds it; several shards may share one.
    """

    def __init__(
        self,
        table: Table,
        optimizer: TableOptimizer,
        *,
        seed: int,
        start: int,
        stop: int,
        blank: bool = False,
        lock: threading.Lock | None = None,
    ) -> None:
        self.table, self.start, self.stop = table, start, stop
        self._seed = seed
        if blank:
            self.rows = empty((stop - start, table.embedding_dim), torch_type(table.data_type))
        else:
            self.rows = initial_rows(table, seed=seed, start=start, stop=stop)
        self.optimizer = make_optimizer(optimizer, num_rows=stop - start, dim=table.embedding_dim)
        self.lock = threading.Lock() if lock is None else lock
        self._touched = torch.zeros(stop - start, dtype=torch.bool)
        self.num_touched = 0
        self._snapshot: Snapshot | None = None

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Rows and optimizer state, in a fixed order; the first dimension is the shard's rows."""
        return {"rows": self.rows, **self.optimizer.state}

    @property
    def flat(self) -> NDArray[Any]:
        """The rows as one line of numbers, for compiled kernels; no copy. See `bits_of`."""
        return bits_of(self.rows.view(-1))

    @property
    def touched_flags(self) -> NDArray[np.bool_]:
        """For each row whether it was touched since the base; no copy. See also num_touched."""
        return self._touched.numpy()

    @property
    def num_bytes(self) -> int:
        """Memory of rows and optimizer state."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def lookup(self, ids: Tensor) -> Tensor:
        """Gather rows, (U,) int64 -> (U, D) of the table's type, in the order asked.

        Raises TableError naming the first id that is out of range.
        """
        self._check(ids)
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
            self.preserve(merged_ids)
            direction = self.optimizer.direction(merged_ids, merged, step)
            self._lower(merged_ids, direction, step)
            self.mark_touched(merged_ids)

    def _lower(self, ids: Tensor, direction: Tensor, step: int) -> None:
        rate = self.optimizer.scalars(step)[0]
        if self.rows.dtype == torch.float32:
            self.rows.index_add_(0, ids, direction, alpha=-rate)
            return
        exact = self.rows[ids].float() - direction * rate
        self.rows[ids] = round_by_chance(
            exact, self.rows.dtype, key=self.key_of_step(step), rows=ids + self.start
        )

    def key_of_step(self, step: int) -> int:
        """Give the bits from which the chance of rounding comes in a step."""
        return key_of_step(self._seed, self.table.name, step)

    def preserve(self, ids: Tensor) -> None:
        """Tell an open snapshot that rows are about to change. ids: (U,), no duplicates."""
        if self._snapshot is not None and self._snapshot.is_open:
            self._snapshot.preserve(ids.long())

    def mark_touched(self, ids: Tensor) -> None:
        """Note that rows are no longer those of the base. ids: (U,) int64, no duplicates."""
        self.num_touched += ids.numel() - int(self._touched[ids].count_nonzero())
        self._touched[ids] = True

    def snapshot(self, *, delta: bool, has_room: Callable[[int], bool] = fits) -> Snapshot:
        """Hold the state as it is now: of the rows touched since the base, or of all.

        Of all makes a new base: no row has been touched since. The snapshot before must be closed.
        """
        ids = self._touched.nonzero().squeeze(1) if delta else None
        self._snapshot = Snapshot(self.tensors, ids=ids, lock=self.lock, has_room=has_room)
        if not delta:
            self._touched.zero_()
            self.num_touched = 0
        return self._snapshot

    def _check(self, ids: Tensor) -> None:
        if ids.numel() == 0:
            return
        self.check_bounds(*(int(bound) for bound in torch.aminmax(ids)))

    def check_bounds(self, low: int, high: int) -> None:
        """Raise TableError if the least or the largest of some ids is out of range."""
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
