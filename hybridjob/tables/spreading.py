"""Which row an id has with training.sharding = "hash": ids that are close lie far apart.

The Planner turns ids to rows before anything else. All that is behind it, from the servers to the
checkpoints, knows rows alone, cut into contiguous ranges. Imports no torch.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hybridjob.errors import TableError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_GOLDEN_2_64 = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio: its multiples fall apart most evenly (TAOCP 3, 6.4)."""
DIGIT_BITS = 21
"""Ids are multiplied in two digits, so that nothing exceeds 63 bits for up to 2^41 rows."""
_LARGEST = 2**41


@dataclass(frozen=True)
class Spread:
    """One table's bijection of ids to rows: row = (id x multiplier + first) mod num_rows."""

    num_rows: int
    multiplier: int
    first: int

    def rows_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the row of each id, 0 <= id < num_rows."""
        high, low = ids >> DIGIT_BITS, ids & (2**DIGIT_BITS - 1)
        carried = (high * self.multiplier % self.num_rows) << DIGIT_BITS
        rows: NDArray[np.int64] = (carried + low * self.multiplier + self.first) % self.num_rows
        return rows


def spread_of(table: str, num_rows: int) -> Spread:
    """Choose a table's bijection, a function of its name and size.

    It may never change: trained tables depend on it. The name decides where id 0 lies, often the
    most frequent one of each table: not all of them on one server. Raises TableError for a table
    that is too large.
    """
    if num_rows > _LARGEST:
        raise TableError(
            f"table {table!r} has {num_rows} rows, but training.sharding = 'hash' spreads no more "
            f"than {_LARGEST}: set training.sharding = 'range'"
        )
    multiplier = num_rows * _GOLDEN_2_64 >> 64
    while math.gcd(multiplier, num_rows) != 1:
        multiplier += 1
    digest = hashlib.blake2b(table.encode(), digest_size=8).digest()
    return Spread(num_rows, multiplier, int.from_bytes(digest, "little") % num_rows)
