"""From rows to one vector a bag, on the trainer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch.nn.functional as F

from hybridjob.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor

    from hybridjob.schema import Pooling


def pool(
    rows: Tensor, places: Tensor, offsets: Tensor, weights: Tensor | None, pooling: Pooling
) -> Tensor:
    """Pool B bags; gradients flow back to rows.

    rows: (U, D), each row once. places: (N,) int64, where each id of each bag stands in rows.
    offsets: (B + 1,) int64. weights: (N,) float32 or None. Returns (B, D); an empty bag gives 0.
    Raises ModelError for weights with another pooling than sum: no one has defined what they mean.
    """
    if weights is not None and pooling != "sum":
        raise ModelError(f"per-sample weights need pooling 'sum', not {pooling!r}")
    if places.numel() == 0:
        return rows.new_zeros(offsets.numel() - 1, rows.shape[1])
    return F.embedding_bag(
        places,
        rows,
        offsets,
        mode=pooling,
        per_sample_weights=weights,
        include_last_offset=True,
    )
