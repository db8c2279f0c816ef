"""A shard's state at one moment, read piece by piece while training changes the shard.

Nothing is copied beforehand. A row that is about to change for the first time since then is copied
first (copy on write), so that memory is needed for the rows that change while a checkpoint is
written, and training never stands still for the size of the tables.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import torch

from hybridjob.checkpoint.memory import fits
from hybridjob.logs import log_event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

logger = logging.getLogger(__name__)
_LEAST_ROWS = 1024


class Snapshot:
    """The rows of a shard as they are now: all, or those named, in their order.

    tensors: name -> tensor, N rows each. ids: (U,) int64 of distinct rows, or None for all. lock:
    guards the tensors against changes. has_room: whether so many bytes more may be used.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        *,
        ids: Tensor | None,
        lock: threading.Lock,
        has_room: Callable[[int], bool] = fits,
    ) -> None:
        self.ids = ids
        self._tensors = dict(tensors)
        self._lock, self._closing = lock, threading.Condition(lock)
        self._has_room = has_room
        num_rows = next(iter(tensors.values())).shape[0]
        self.num_rows = num_rows if ids is None else ids.numel()
        # For each row where its old values lie, counted from 1. Zeros: memory comes with use.
        self._slots = torch.zeros(num_rows, dtype=torch.int32)
        self._unchanged = 0
        if ids is not None:
            self._unchanged = -1
            self._slots[ids] = self._unchanged
        self._kept = {name: tensor[:0].clone() for name, tensor in self._tensors.items()}
        self._num_kept = 0
        self.is_open = True

    def preserve(self, ids: Tensor) -> None:
        """Keep the values of rows that are about to change. It must be open, and the lock held.

        ids: (U,) int64, distinct. Where memory is short this waits until `close`, and lets the lock
        go meanwhile.
        """
        fresh = ids[self._slots[ids] == self._unchanged]
        count = fresh.numel()
        if count == 0 or not self._reserve(self._num_kept + count):
            return
        begin, end = self._num_kept, self._num_kept + count
        for name, tensor in self._tensors.items():
            torch.index_select(tensor, 0, fresh, out=self._kept[name][begin:end])
        self._slots[fresh] = torch.arange(begin + 1, end + 1, dtype=torch.int32)
        self._num_kept = end

    def read(self, name: str, start: int, stop: int) -> Tensor:
        """Copy rows start <= row < stop of a tensor, as they were; of `ids` if it was given."""
        with self._lock:
            if self.ids is None:
                found = self._tensors[name][start:stop].clone()
                slots = self._slots[start:stop]
            else:
                found = self._tensors[name].index_select(0, self.ids[start:stop])
                slots = self._slots[self.ids[start:stop]]
            changed = (slots > 0).nonzero().squeeze(1)
            if changed.numel():
                found[changed] = self._kept[name][slots[changed].long() - 1]
        return found

    def close(self) -> None:
        """Forget the state, and let go who waits for memory."""
        with self._closing:
            self.is_open = False
            self.ids, self._slots = None, self._slots[:0].clone()
            self._kept.clear()
            self._closing.notify_all()

    def _reserve(self, num_rows: int) -> bool:
        """Make room for the values of so many rows; False if there is none until `close`."""
        first = next(iter(self._kept.values()))
        if num_rows <= len(first):
            return True
        capacity = min(self.num_rows, max(num_rows, 2 * len(first), _LEAST_ROWS))
        needed = sum(
            capacity * (tensor.nbytes // max(1, tensor.shape[0]))
            for tensor in self._tensors.values()
        )
        if not self._has_room(needed):
            log_event(
                logger,
                "no memory for a snapshot: training waits until the checkpoint is written",
                logging.WARNING,
                needed_mb=needed / 1e6,
            )
            self._closing.wait_for(lambda: not self.is_open)
            return False
        for name, tensor in self._tensors.items():
            grown = tensor.new_empty((capacity, *tensor.shape[1:]))
            grown[: self._num_kept] = self._kept[name][: self._num_kept]
            self._kept[name] = grown
        return True
