"""The model of PyTorch's tutorial "Combining Distributed DataParallel with Distributed RPC"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from hybridjob.schema import Table

if TYPE_CHECKING:
    from torch import Tensor

    from hybridjob.schema import Schema


class TutorialModel(nn.Module):
    """A linear layer over one pooled bag: (B, 16) -> (B, 8)."""

    def __init__(self, embedding_dim: int, num_classes: int) -> None:
        super().__init__()
        self.fc = nn.Linear(embedding_dim, num_classes)

    def forward(self, dense: Tensor, features: dict[str, Tensor]) -> Tensor:
        """Give the classes' logits: (B, 8)."""
        del dense
        logits: Tensor = self.fc(features["indices"])
        return logits


def factory(
    schema: Schema, *, embedding_dim: int = 16, num_classes: int = 8
) -> tuple[nn.Module, list[Table]]:
    """Make the tutorial's model: EmbeddingBag(100, 16, mode="sum") and Linear(16, 8)."""
    table = Table(
        name="embedding",
        num_embeddings=schema.cardinalities["indices"],
        embedding_dim=embedding_dim,
        feature_names=("indices",),
        pooling="sum",
    )
    return TutorialModel(embedding_dim, num_classes), [table]
