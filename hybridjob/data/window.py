"""Deal blocks to trainers, and shuffle rows within windows of several blocks.

One epoch's stream of a trainer is the sequence of its windows' rows. A window is a function of the
block at which it begins, so that reading can go on at any row by loading one window again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hybridjob.data.hashing import hash_numbers
from hybridjob.data.rows import Rows, concatenate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hybridjob.data.source import Source

_MOST_BYTES = 256 << 20
_BLOCK_ORDER = 0xB10C
_ROW_ORDER = 0x2085


@dataclass(frozen=True)
class Window:
    """Rows that are shuffled among each other. n rows.

    first: place, among the trainer's blocks of the epoch, of the window's first block.
    order: (n,) the order of the rows, or None to take them as they are.
    skipped: bad rows left out from the epoch's beginning to this window's end.
    """

    first: int
    rows: Rows
    order: NDArray[np.int64] | None
    skipped: int


@dataclass(frozen=True, kw_only=True)
class Dealing:
    """All that decides the order of one trainer's rows in one epoch."""

    seed: int
    epoch: int
    trainer: int
    num_trainers: int
    shuffle: bool
    window_rows: int

    def of_epoch(self, epoch: int) -> Dealing:
        """Give the same for another epoch."""
        return replace(self, epoch=epoch)

    def blocks(self, num_blocks: int) -> NDArray[np.int64]:
        """Give this trainer's blocks in order; over all trainers each block is dealt once."""
        order = np.arange(num_blocks, dtype=np.int64)
        if self.shuffle:
            order = _generator(_BLOCK_ORDER, self.seed, self.epoch).permutation(order)
        return order[self.trainer :: self.num_trainers]

    def row_order(self, block: int, num_rows: int) -> NDArray[np.int64] | None:
        """Give the order of the rows of the window that begins with a block."""
        if not self.shuffle:
            return None
        return _generator(_ROW_ORDER, self.seed, self.epoch, block).permutation(num_rows)


def windows(source: Source, dealing: Dealing, first: int, skipped: int) -> Iterator[Window]:
    """Load the windows from the one on that begins at the trainer's block `first`.

    skipped: bad rows left out before it.
    """
    blocks = dealing.blocks(source.num_blocks)
    while first < len(blocks):
        parts: list[Rows] = []
        count = size = 0
        place = first
        while place < len(blocks) and (not parts or not _is_full(dealing, count, size)):
            read = source.read(int(blocks[place]))
            parts.append(read.rows)
            count += len(read.rows)
            size += read.rows.num_bytes
            skipped += read.skipped
            place += 1
        order = dealing.row_order(int(blocks[first]), count)
        yield Window(first, concatenate(parts), order, skipped)
        first = place


def _is_full(dealing: Dealing, count: int, size: int) -> bool:
    return not dealing.shuffle or count >= dealing.window_rows or size >= _MOST_BYTES


def _generator(*numbers: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(hash_numbers(*numbers)))
