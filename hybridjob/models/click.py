"""A DLRM-like model of clicks (Naumov et al., arXiv:1906.00091, section 2).

B samples, F dense columns, D embedding_dim, C categorical features.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from hybridjob.errors import ModelError
from hybridjob.schema import Pooling, Table

if TYPE_CHECKING:
    from torch import Tensor

    from hybridjob.schema import Schema


class ClickModel(nn.Module):
    """Dense columns through a bottom MLP, dot products of all pairs, then a top MLP."""

    def __init__(
        self,
        schema: Schema,
        *,
        embedding_dim: int,
        bottom: Sequence[int],
        top: Sequence[int],
        dropout: float,
    ) -> None:
        super().__init__()
        self.features = tuple(schema.cardinalities)
        num_vectors = len(self.features) + (schema.num_dense > 0)
        self.bottom = (
            _mlp([schema.num_dense, *bottom, embedding_dim], dropout=0.0)
            if schema.num_dense
            else None
        )
        num_pairs = num_vectors * (num_vectors - 1) // 2
        self.top = _mlp([num_vectors * embedding_dim + num_pairs, *top, 1], dropout=dropout)
        first, second = torch.triu_indices(num_vectors, num_vectors, offset=1)
        # Places in the flattened products: an index of one dimension has the faster gradient.
        self.register_buffer("pairs", first * num_vectors + second, persistent=False)
        self.pairs: Tensor

    def forward(self, dense: Tensor, features: dict[str, Tensor]) -> Tensor:
        """Give one logit a sample: (B,)."""
        vectors = [features[name] for name in self.features]
        if self.bottom is not None:
            vectors.insert(0, self.bottom(dense))
        stacked = torch.stack(vectors, dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        interactions = products.flatten(1).index_select(1, self.pairs)
        logits: Tensor = self.top(torch.cat([stacked.flatten(1), interactions], dim=1))
        return logits.squeeze(1)


def _mlp(sizes: Sequence[int], *, dropout: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for size_in, size_out in itertools.pairwise(sizes[:-1]):
        layers += [nn.Linear(size_in, size_out), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


def factory(
    schema: Schema,
    *,
    embedding_dim: int = 16,
    bottom: Sequence[int] = (64,),
    top: Sequence[int] = (64, 32),
    dropout: float = 0.0,
    pooling: Pooling = "mean",
    initial_scale: float = 0.05,
) -> tuple[nn.Module, list[Table]]:
    """Make the model for whatever columns the data has: a table for each categorical feature."""
    if not schema.cardinalities:
        raise ModelError("the click model needs at least one categorical feature")
    tables = [
        Table(
            name=name,
            num_embeddings=size,
            embedding_dim=embedding_dim,
            feature_names=(name,),
            pooling=pooling,
            initial="uniform",
            initial_scale=initial_scale,
        )
        for name, size in schema.cardinalities.items()
    ]
    module = ClickModel(
        schema, embedding_dim=embedding_dim, bottom=bottom, top=top, dropout=dropout
    )
    return module, tables
