"""Which server holds which rows: contiguous ranges, as even as can be."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def row_bounds(num_rows: int, num_servers: int) -> list[int]:
    """Cut a table's rows: server p holds rows bounds[p] <= row < bounds[p + 1].

    Returns P + 1 ascending numbers from 0 to num_rows. A server may hold no row.
    """
    return [num_rows * server // num_servers for server in range(num_servers + 1)]


def split_sorted(ids: Tensor, bounds: Sequence[int]) -> list[slice]:
    """Cut ascending ids, (U,) int64, into one slice a server."""
    cuts = torch.searchsorted(ids, torch.tensor(bounds, dtype=ids.dtype)).tolist()
    return [slice(start, stop) for start, stop in itertools.pairwise(cuts)]
