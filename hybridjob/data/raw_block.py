"""One block of a file as an arrow table, not yet encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


class BrokenRow(NamedTuple):
    """A row that could not be cut into cells; numbered from 0 in its block."""

    row_number: int
    text: str


@dataclass(frozen=True, kw_only=True)
class RawBlock:
    """Rows of one block: an arrow table (n rows) with the columns that are used.

    file_index, block_in_file: decide, with a row's number, which rows are held out for the test.
    row_numbers: (n,) each row's number in the block, counted with the broken ones.
    place: says for a row number where it is: file and line.
    """

    file_index: int
    block_in_file: int
    table: Any
    row_numbers: NDArray[np.int64]
    broken: tuple[BrokenRow, ...]
    place: Callable[[int], str]


class RawTable(Protocol):
    """Files of one form, cut into blocks whatever the number of trainers."""

    @property
    def num_blocks(self) -> int:
        """All files' blocks."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, in the order of their numbers."""

    def columns_of(self, file_index: int) -> tuple[str, ...]:
        """Name the columns of one file."""

    def origin_of(self, block: int) -> tuple[int, int]:
        """Give a block's file_index and block_in_file."""

    def read(self, block: int, wanted: Mapping[str, Any]) -> RawBlock:
        """Read the wanted columns of a block; their types are a hint that text may miss."""

    def estimated_rows(self) -> int:
        """Say about how many rows there are, from sizes."""
