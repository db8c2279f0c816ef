"""The trainer's side of the tables in plain torch: the reference, and where numba is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from hybridjob.pooling import pool
from hybridjob.tables.dealt import Dealt, DealtBags
from hybridjob.tables.sharding import row_bounds, split_sorted

if TYPE_CHECKING:
    from torch import Tensor

    from hybridjob.data.batch import Jagged
    from hybridjob.schema import Pooling
    from hybridjob.tables.spreading import Spread


class TorchTrainer:
    """Deals ids to servers, and pools rows: forward and backward by torch's autograd."""

    pools_on_servers = False

    @staticmethod
    def bounds(ids: Tensor) -> tuple[int, int]:
        """Give the least and the largest of at least one id."""
        low, high = torch.aminmax(ids)
        return int(low), int(high)

    @staticmethod
    def rows_of(ids: Tensor, spread: Spread) -> Tensor:
        """Give the row of each id."""
        return torch.from_numpy(spread.rows_of(ids.numpy()))

    @staticmethod
    def width(offsets: Tensor) -> int:
        """Say that bags may differ in size."""
        del offsets
        return -1

    @staticmethod
    def deal_rows(ids: Tensor, num_rows: int, num_servers: int, dtype: torch.dtype) -> Dealt:
        """Find the distinct ids and cut them by server."""
        unique, places = torch.unique(ids, return_inverse=True)
        bounds = row_bounds(num_rows, num_servers)
        parts = split_sorted(unique, bounds)
        local = [unique[part] - bounds[server] for server, part in enumerate(parts)]
        cuts = [0, *(part.stop for part in parts)]
        return Dealt(torch.cat(local).to(dtype), cuts, places)

    @staticmethod
    def deal_bags(bag: Jagged, num_rows: int, num_servers: int, dtype: torch.dtype) -> DealtBags:
        """Refuse: servers pool only by compiled kernels."""
        raise NotImplementedError

    @staticmethod
    def pool(
        rows: Tensor, dim: int, places: Tensor, bag: Jagged, pooling: Pooling, out: Tensor
    ) -> Any:
        """Pool one feature: rows (U * D,), of any type; out (B * D,). Gives what `unpool` wants."""
        leaf = rows.float().view(-1, dim).detach().requires_grad_()
        with torch.enable_grad():
            vectors = pool(leaf, places, bag.offsets, bag.weights, pooling)
        out.view(-1, dim).copy_(vectors.detach())
        return leaf, vectors

    @staticmethod
    def finish(sums: Tensor, dim: int, bag: Jagged, pooling: Pooling, out: Tensor) -> None:
        """Refuse: servers pool only by compiled kernels."""
        raise NotImplementedError

    @staticmethod
    def of_sums(gradient: Tensor, dim: int, bag: Jagged, pooling: Pooling) -> None:
        """Leave the gradient as it is: autograd knows the pooling."""

    @staticmethod
    def unpool(
        gradient: Tensor, dim: int, places: Tensor, bag: Jagged, kept: Any, out: Tensor
    ) -> None:
        """Add one feature's gradient, (B * D,), to that of the rows, out (U * D,)."""
        del places, bag
        leaf, vectors = kept
        if vectors.requires_grad:
            (found,) = torch.autograd.grad(vectors, leaf, gradient.view(-1, dim))
            out.view(-1, dim).add_(found)
