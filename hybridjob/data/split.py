"""Which rows are held out for the test: a hash of the row's place, the same for any trainers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from hybridjob.data.hashing import hash_numbers, mix

if TYPE_CHECKING:
    from numpy.typing import NDArray

SplitName = Literal["train", "test"]
_PURPOSE = 0x7E57


@dataclass(frozen=True)
class Split:
    """The rows of one side. fraction: the share of rows that the test side gets."""

    name: SplitName
    fraction: float
    seed: int

    @property
    def takes_all(self) -> bool:
        """Whether nothing is held out from this side."""
        return self.name == "train" and self.fraction == 0

    def holds(
        self, file_index: int, block: int, row_numbers: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Tell for each row, numbered from 0 in its block, whether it is on this side."""
        base = hash_numbers(_PURPOSE, self.seed, file_index, block)
        hashes = mix(mix(row_numbers.astype(np.uint64)) ^ np.uint64(base))
        held_out = hashes < np.uint64(int(self.fraction * 2.0**64))
        return held_out if self.name == "test" else ~held_out


EVERYTHING = Split("train", 0.0, 0)
