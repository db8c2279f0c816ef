"""The trainer's side of the tables, by compiled kernels: see hybridjob.tables.torch_trainer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hybridjob.tables import id_kernels, pooling_kernels
from hybridjob.tables.data_types import bits_of
from hybridjob.tables.dealt import Dealt, DealtBags

if TYPE_CHECKING:
    from torch import Tensor

    from hybridjob.data.batch import Jagged
    from hybridjob.schema import Pooling
    from hybridjob.tables.spreading import Spread

_NO_WEIGHTS = np.empty(0, np.float32)


class CompiledTrainer:
    """Deals ids to servers, and pools rows, without autograd."""

    pools_on_servers = True

    @staticmethod
    def bounds(ids: Tensor) -> tuple[int, int]:
        """Give the least and the largest of at least one id."""
        low, high = id_kernels.bounds_of(ids.numpy())
        return int(low), int(high)

    @staticmethod
    def rows_of(ids: Tensor, spread: Spread) -> Tensor:
        """Give the row of each id."""
        rows = torch.empty_like(ids)
        id_kernels.spread(
            ids.numpy(), spread.num_rows, spread.multiplier, spread.first, rows.numpy()
        )
        return rows

    @staticmethod
    def width(offsets: Tensor) -> int:
        """Give the bags' size if all have the same, else -1."""
        return int(id_kernels.width_of(offsets.numpy()))

    @staticmethod
    def deal_rows(ids: Tensor, num_rows: int, num_servers: int, dtype: torch.dtype) -> Dealt:
        """Find the distinct ids and cut them by server."""
        unique = np.empty(len(ids), np.int64)
        places = np.empty(len(ids), np.int32)
        unique = unique[: id_kernels.distinct(ids.numpy(), unique, places)]
        if num_servers == 1:
            local = torch.from_numpy(unique).to(dtype)
            return Dealt(local, [0, len(unique)], torch.from_numpy(places))
        local = torch.empty(len(unique), dtype=dtype)
        order, cuts = np.empty(len(unique), np.int32), np.zeros(num_servers + 1, np.int64)
        id_kernels.deal(unique, num_rows, num_servers, local.numpy(), order, cuts)
        return Dealt(local, cuts.tolist(), torch.from_numpy(order[places]))

    @staticmethod
    def deal_bags(bag: Jagged, num_rows: int, num_servers: int, dtype: torch.dtype) -> DealtBags:
        """Cut every bag by server."""
        count, bags = len(bag.values), len(bag.offsets) - 1
        local = torch.empty(count, dtype=dtype)
        come_from = np.empty(count, np.int32)
        dealt = torch.empty(num_servers, bags + 1, dtype=torch.int32)
        cuts = np.zeros(num_servers + 1, np.int64)
        id_kernels.deal_bags(
            bag.values.numpy(), bag.offsets.numpy(), num_rows, num_servers,
            local.numpy(), come_from, dealt.numpy(), cuts,
        )  # fmt: skip
        weights = None if bag.weights is None else bag.weights[torch.from_numpy(come_from).long()]
        return DealtBags(local, cuts.tolist(), dealt, weights)

    @staticmethod
    def pool(
        rows: Tensor, dim: int, places: Tensor, bag: Jagged, pooling: Pooling, out: Tensor
    ) -> Any:
        """Pool one feature: rows (U * D,), of any type; out (B * D,). Gives what `unpool` wants."""
        offsets = bag.offsets.numpy()
        if pooling == "max":
            winners = np.empty(len(out), np.int32)
            pooling_kernels.pool_largest(
                bits_of(rows), dim, places.numpy(), offsets, out.numpy(), winners
            )
            return winners
        pooling_kernels.pool_sums(
            bits_of(rows), dim, places.numpy(), offsets, -1, _weights(bag), out.numpy(),
            0, len(offsets) - 1, pooling == "mean",
        )  # fmt: skip
        return None

    @staticmethod
    def finish(sums: Tensor, dim: int, bag: Jagged, pooling: Pooling, out: Tensor) -> None:
        """Turn sums over all servers, (B * D,) float64, to pooled vectors."""
        pooling_kernels.finish_sums(
            sums.numpy(), dim, bag.offsets.numpy(), pooling == "mean", out.numpy()
        )

    @staticmethod
    def of_sums(gradient: Tensor, dim: int, bag: Jagged, pooling: Pooling) -> None:
        """Turn the gradient of pooled vectors, (B * D,), to that of sums, in place."""
        if pooling == "mean":
            pooling_kernels.divide_by_sizes(gradient.numpy(), dim, bag.offsets.numpy())

    @staticmethod
    def unpool(
        gradient: Tensor, dim: int, places: Tensor, bag: Jagged, kept: Any, out: Tensor
    ) -> None:
        """Add one feature's gradient, (B * D,) of sums or of largest values, to out (U * D,)."""
        if kept is None:
            pooling_kernels.scatter_sums(
                gradient.numpy(), dim, places.numpy(), bag.offsets.numpy(), _weights(bag),
                out.numpy(),
            )  # fmt: skip
        else:
            pooling_kernels.scatter_largest(gradient.numpy(), dim, kept, out.numpy())


def _weights(bag: Jagged) -> Any:
    return _NO_WEIGHTS if bag.weights is None else bag.weights.numpy()
