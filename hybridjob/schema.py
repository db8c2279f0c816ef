"""What data and model say of each other: features with their sizes, tables with their shapes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from hybridjob.errors import ModelError

_FILE_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")
Pooling = Literal["sum", "mean", "max"]
Initial = Literal["normal", "uniform", "zeros"]
DataType = Literal["float32", "float16", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What a data set offers to a model.

    num_dense: columns of the dense matrix, F.
    cardinalities: for each categorical feature the number of its ids, which count from 0.
    """

    num_dense: int = 0
    cardinalities: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Table:
    """One embedding table, named as in TorchRec's EmbeddingBagConfig.

    num_embeddings x embedding_dim values; `feature_names` share its rows, and each feature's bag is
    pooled to one vector. Rows start as normal(0, initial_scale), uniform(-initial_scale,
    initial_scale) or zeros. data_type: in which rows are kept; None: the job file's
    model.table_data_type. What is computed with them is float32 in any case.
    """

    name: str
    num_embeddings: int
    embedding_dim: int
    feature_names: tuple[str, ...]
    pooling: Pooling = "sum"
    initial: Initial = "normal"
    initial_scale: float = 1.0
    data_type: DataType | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "feature_names", tuple(self.feature_names))
        if not _FILE_NAME.match(self.name):
            raise ModelError(
                f"table name {self.name!r}: use letters, digits, dots, dashes and underscores"
            )
        for name, value in (
            ("num_embeddings", self.num_embeddings),
            ("embedding_dim", self.embedding_dim),
        ):
            if value < 1:
                raise ModelError(f"table {self.name!r}: {name} is {value}, but must be at least 1")
        if not self.feature_names:
            raise ModelError(f"table {self.name!r} has no feature_names: name at least one")
        if self.pooling not in ("sum", "mean", "max"):
            raise ModelError(
                f"table {self.name!r}: pooling is {self.pooling!r}, not sum, mean or max"
            )
        if self.data_type not in (None, "float32", "float16", "bfloat16"):
            raise ModelError(
                f"table {self.name!r}: data_type is {self.data_type!r}, not float32, float16 or "
                "bfloat16"
            )
