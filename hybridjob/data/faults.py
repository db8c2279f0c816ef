"""Bad rows of one block, collected column by column without a Python loop over the good ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


class Fault(NamedTuple):
    """What is wrong with a row (numbered among those given), and in which column."""

    row: int
    column: str
    text: str


class Faults:
    """A mask of bad rows among n, and a description of the first one."""

    def __init__(self, num_rows: int) -> None:
        self.mask = np.zeros(num_rows, dtype=np.bool_)
        self.first: Fault | None = None

    def add(
        self,
        column: str,
        bad: NDArray[np.bool_],
        describe: Callable[[int], str],
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        """Count values as bad, and so their rows.

        bad: a mask over the column's (N,) values. rows: (N,) ascending, the row of each value;
        None if there is one value a row. describe tells what is wrong with a value.
        """
        if not bad.any():
            return
        value = int(np.argmax(bad))
        row = value if rows is None else int(rows[value])
        if self.first is None or row < self.first.row:
            self.first = Fault(row, column, describe(value))
        if rows is None:
            self.mask |= bad
        else:
            self.mask[rows[bad]] = True
