"""Ids cut by the server that holds them.

P servers, U distinct ids, N ids in B bags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Dealt:
    """Distinct ids.

    local: (U,) as the servers count; server p's are local[cuts[p]:cuts[p + 1]]. places: (N,) int32
    or int64, where each id of the batch stands in local.
    """

    local: Tensor
    cuts: list[int]
    places: Tensor


@dataclass(frozen=True)
class DealtBags:
    """Bags, each cut over the servers.

    local: (N,) as the servers count; server p's are local[cuts[p]:cuts[p + 1]]. offsets: (P, B + 1)
    int32, from a server's first id on. weights: (N,) float32 in the order of local, or None.
    """

    local: Tensor
    cuts: list[int]
    offsets: Tensor
    weights: Tensor | None
