"""A model with all that tables can do, for tests: three widths, three poolings, a shared table."""

import torch
from torch import nn

from hybridjob import Table
from hybridjob.models.click import factory as click


class SampleModel(nn.Module):
    def __init__(self, num_dense, widths):
        super().__init__()
        self.features = list(widths)
        self.hidden = nn.Linear(num_dense + sum(widths.values()), 6)
        self.out = nn.Linear(6, 1)

    def forward(self, dense, features):
        joined = torch.cat([dense, *(features[name] for name in self.features)], dim=1)
        return self.out(torch.tanh(self.hidden(joined))).squeeze(1)


def tables_of(schema):
    return [
        Table(
            name=name,
            num_embeddings=max(schema.cardinalities[feature] for feature in features),
            embedding_dim=dim,
            feature_names=features,
            pooling=pooling,
            initial_scale=0.3,
        )
        for name, dim, features, pooling in (
            ("shared", 4, ("weighted", "single"), "sum"),
            ("averaged", 3, ("bag",), "mean"),
            ("largest", 5, ("top",), "max"),
        )
    ]


def factory(schema):
    tables = tables_of(schema)
    widths = {name: table.embedding_dim for table in tables for name in table.feature_names}
    return SampleModel(schema.num_dense, widths), tables


def failing_forward(schema):
    module, tables = click(schema)
    module.forward = lambda dense, features: dense.new_zeros(len(dense)).view(7, 99)
    return module, tables


def forward_without_a_result(schema):
    module, tables = click(schema)
    module.forward = lambda dense, features: None
    return module, tables


def leaving_factory(schema):
    raise SystemExit(3)


def failing_factory(schema):
    raise RuntimeError(f"no model for {schema.num_dense} dense columns")
