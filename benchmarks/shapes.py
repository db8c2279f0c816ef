"""The shapes that are measured: their job files, their models, and batches that are made once.

Every contender trains on the same batches, made before the clock starts, so that reading costs
nothing. `factory` also gives the product such a reader: it is imported in each of its processes.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

import hybridjob.trainer
from hybridjob import Table
from hybridjob.data.reader import open_reader
from hybridjob.models.click import factory as click_factory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hybridjob.data.batch import Batch
    from hybridjob.schema import Schema

_BATCHES = 12
_BATCHES_PER_SHAPE = {"A": 4096, "B": 2048}
JOB = """
name = "{shape}"
[ps]
tasks_per_node = {servers}
cpus_per_task = {server_threads}
[trainer]
tasks_per_node = {trainers}
[model]
factory = "shapes:factory"
options = {{ dim = {dim} }}
[data]
format = "synthetic"
num_samples = {samples}
num_dense = {num_dense}
{features}
[training]
batch_size = {batch_size}
max_steps = {steps}
log_every_steps = 10
evaluate = "never"
[training.table_optimizer]
name = "{optimizer}"
lr = 0.01
[training.dense_optimizer]
name = "SGD"
lr = 0.01
"""
_FEATURE = """[[data.features]]
name = "f{number}"
cardinality = {rows}
ids_per_sample = {ids}
zipf = {zipf}
"""


def job_text(
    shape: str,
    *,
    optimizer: str = "sgd",
    zipf: float = 0.0,
    steps: int,
    rows: int | None = None,
    dim: int | None = None,
    servers: int = 1,
    trainers: int = 2,
    server_threads: int = 2,
) -> str:
    """Write the job file of a shape: A one wide table of bags, B 26 tables with one id each.

    rows, dim: others than the shape's own.
    """
    if shape == "A":
        own_rows, own_dim, tables, ids, num_dense = 1_000_000, 64, 1, 26, 0
    else:
        own_rows, own_dim, tables, ids, num_dense = 100_000, 16, 26, 1, 13
    features = "".join(
        _FEATURE.format(number=number, rows=rows or own_rows, ids=ids, zipf=zipf)
        for number in range(tables)
    )
    batch_size = _BATCHES_PER_SHAPE[shape] * trainers
    return JOB.format(
        shape=shape,
        servers=servers,
        server_threads=server_threads,
        trainers=trainers,
        dim=dim or own_dim,
        samples=batch_size * (_BATCHES + 2),
        num_dense=num_dense,
        features=features,
        batch_size=batch_size,
        steps=steps,
        optimizer=optimizer,
    )


class Wide(nn.Module):
    """One linear layer over one pooled bag, as in PyTorch's tutorial: (B, D) -> (B,)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, 1)

    def forward(self, dense: Tensor, features: dict[str, Tensor]) -> Tensor:
        """Give one logit a sample."""
        del dense
        logits: Tensor = self.fc(features["f0"])
        return logits.squeeze(1)


def factory(schema: Schema, *, dim: int) -> tuple[nn.Module, list[Table]]:
    """Make the shape's model; the product's trainers read batches that are made once."""
    hybridjob.trainer.open_reader = MadeOnce  # type: ignore[assignment]
    if schema.num_dense:
        module, tables = click_factory(schema, embedding_dim=dim, pooling="sum")
        return module, list(tables)
    ((name, rows),) = schema.cardinalities.items()
    table = Table(
        name=name, num_embeddings=rows, embedding_dim=dim, feature_names=(name,), initial_scale=0.1
    )
    return Wide(dim), [table]


class MadeOnce:
    """A reader whose first batches come again and again, without any work."""

    def __init__(self, *args: Any, **more: Any) -> None:
        reader = open_reader(*args, **more)
        self._batches = list(itertools.islice(reader.batches(0), _BATCHES))
        self.skipped_rows = 0

    def estimated_batches(self) -> int:
        """Say that there is no end."""
        return 1 << 30

    def batches(self, epoch: int, start: dict[str, Any] | None = None) -> Iterator[Batch]:
        """Give batches without end."""
        del epoch, start
        return itertools.cycle(self._batches)
