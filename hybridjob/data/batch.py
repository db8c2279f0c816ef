"""What a reader gives and a trainer takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from hybridjob.schema import Schema


@dataclass(frozen=True)
class Jagged:
    """Bags of ids of one feature, one bag a sample; bags may be empty.

    B samples, N ids in all.
    values: (N,) int64. offsets: (B + 1,) int64, bag b is values[offsets[b]:offsets[b + 1]].
    weights: (N,) float32 per-sample weights, or None.
    """

    values: Tensor
    offsets: Tensor
    weights: Tensor | None = None


@dataclass(frozen=True)
class Batch:
    """B samples of one trainer.

    dense: (B, F) float32. features: name -> Jagged of B bags. labels: (B,) float32, or int64 for
    classes. position: where reading goes on after this batch, plain values that JSON can hold.
    """

    dense: Tensor
    features: dict[str, Jagged]
    labels: Tensor
    position: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """B: the number of samples."""
        return int(self.labels.shape[0])


def empty_batch(schema: Schema) -> Batch:
    """Make a batch of no samples, for a trainer that is out of data while others are not."""
    no_ids = Jagged(torch.empty(0, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))
    return Batch(
        dense=torch.empty(0, schema.num_dense),
        features=dict.fromkeys(schema.cardinalities, no_ids),
        labels=torch.empty(0),
    )
