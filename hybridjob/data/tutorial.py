"""The data of PyTorch's tutorial "Combining Distributed DataParallel with Distributed RPC".

Each trainer makes, in each epoch, 10 batches of 20 to 50 ids, cut into bags of 1 to 10, with a
class for each bag. Made from (seed, epoch, trainer, batch) alone, so that any can be made again.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridjob.data.hashing import hash_numbers
from hybridjob.data.rows import Bag, Rows
from hybridjob.data.tensors import to_batch
from hybridjob.data.tutorial_shape import (
    BATCHES_PER_EPOCH,
    FEATURE,
    NUM_CLASSES,
    NUM_EMBEDDINGS,
)
from hybridjob.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hybridjob.data.batch import Batch

_PURPOSE = 0x7070
_FEWEST_IDS = 20
_MOST_IDS = 50
_LONGEST_BAG = 10


class TutorialReader:
    """Makes the tutorial's batches; their sizes are its own."""

    def __init__(self, *, seed: int, trainer: int, is_empty: bool) -> None:
        self._seed = seed
        self._trainer = trainer
        self._count = 0 if is_empty else BATCHES_PER_EPOCH

    @property
    def skipped_rows(self) -> int:
        """Bad rows left out: none."""
        return 0

    def estimated_batches(self) -> int:
        """Count this trainer's batches of an epoch."""
        return self._count

    def batches(self, epoch: int, start: dict[str, Any] | None = None) -> Iterator[Batch]:
        """Make an epoch's batches, or those after the position of one."""
        first = 0
        if start is not None:
            if start.get("epoch") != epoch or not isinstance(start.get("batch"), int):
                raise DataError(f"position {start} is not one of epoch {epoch} of this data")
            first = start["batch"]
        return (
            to_batch(
                make_rows(hash_numbers(_PURPOSE, self._seed, epoch, self._trainer, number)),
                {"epoch": epoch, "batch": number + 1},
            )
            for number in range(first, self._count)
        )


def make_rows(seed: int) -> Rows:
    """Make one batch by the tutorial's algorithm."""
    # Plain random numbers, no secrets.
    generator = random.Random(seed)  # noqa: S311
    num_ids = generator.randint(_FEWEST_IDS, _MOST_IDS)
    ids = [generator.randrange(NUM_EMBEDDINGS) for _ in range(num_ids)]
    starts = []
    start = 0
    while start < num_ids:
        starts.append(start)
        start += generator.randint(1, _LONGEST_BAG)
    labels = [generator.randrange(NUM_CLASSES) for _ in starts]
    bag = Bag(np.array(ids, dtype=np.int64), np.array([*starts, num_ids], dtype=np.int64))
    dense = np.zeros((len(starts), 0), dtype=np.float32)
    return Rows(dense, np.array(labels, dtype=np.int64), {FEATURE: bag})
