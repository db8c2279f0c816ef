"""A model of one's own: an ordinary module, and a declaration of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from hybridjob import Table

if TYPE_CHECKING:
    from hybridjob import Schema


class TwoTowers(nn.Module):
    """Score a user and an item by the dot product of their vectors, plus a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, dense: Tensor, features: dict[str, Tensor]) -> Tensor:
        """Give one logit a sample: (B,)."""
        del dense
        return (features["user_id"] * features["item_id"]).sum(dim=1) + self.bias


def factory(schema: Schema, embedding_dim: int = 32) -> tuple[nn.Module, list[Table]]:
    """Make the model; `model.options` of the job file are the keyword arguments."""
    tables = [
        Table(
            name=name,
            num_embeddings=schema.cardinalities[name],
            embedding_dim=embedding_dim,
            feature_names=(name,),
            initial_scale=0.1,
        )
        for name in ("user_id", "item_id")
    ]
    return TwoTowers(), tables
