"""From a batch to one question a server, and from the answers to vectors: the trainer's plan.

For each table there are two ways. Either the servers pool: all ids travel there, B vectors a
feature back, and gradients of vectors there. Or the trainer does: distinct ids travel, and rows,
and gradients of rows. By compiled kernels both give the same bits, so the choice is free: for each
batch the way that moves fewer bytes, or what training.pool_on says. Where values travel in 16 bits
it does change bits, so the choice is a function of the batch and of P alone.

B bags, D columns, N ids, U distinct ids, P servers. A block holds B x D values of each feature, one
feature after the other.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import torch

from hybridjob.errors import ModelError, TableError
from hybridjob.tables.pooling_place import PoolingPlace
from hybridjob.tables.spreading import Spread, spread_of
from hybridjob.tables.wire import JAGGED, ROWS, Part, Question, id_type, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from hybridjob.config import PoolOn, Sharding
    from hybridjob.data.batch import Batch, Jagged
    from hybridjob.schema import Pooling, Table
    from hybridjob.tables.dealt import Dealt, DealtBags


class TrainerKernels(Protocol):
    """What a trainer computes for its tables: see hybridjob.tables.torch_trainer."""

    pools_on_servers: bool

    def bounds(self, ids: Tensor) -> tuple[int, int]: ...  # noqa: D102
    def rows_of(self, ids: Tensor, spread: Spread) -> Tensor: ...  # noqa: D102
    def width(self, offsets: Tensor) -> int: ...  # noqa: D102
    def deal_rows(  # noqa: D102
        self, ids: Tensor, num_rows: int, num_servers: int, dtype: torch.dtype
    ) -> Dealt: ...
    def deal_bags(  # noqa: D102
        self, bag: Jagged, num_rows: int, num_servers: int, dtype: torch.dtype
    ) -> DealtBags: ...
    def pool(  # noqa: D102
        self, rows: Tensor, dim: int, places: Tensor, bag: Jagged, pooling: Pooling, out: Tensor
    ) -> Any: ...
    def finish(  # noqa: D102
        self, sums: Tensor, dim: int, bag: Jagged, pooling: Pooling, out: Tensor
    ) -> None: ...
    def of_sums(self, gradient: Tensor, dim: int, bag: Jagged, pooling: Pooling) -> None: ...  # noqa: D102
    def unpool(  # noqa: D102
        self, gradient: Tensor, dim: int, places: Tensor, bag: Jagged, kept: Any, out: Tensor
    ) -> None: ...


@dataclass(frozen=True)
class Slot:
    """A feature's place in the block: block[begin:end] holds its (B, D) vectors."""

    name: str
    dim: int
    pooling: Pooling
    begin: int
    end: int


@dataclass(frozen=True)
class RowsOfTable:
    """A table that the trainer pools. places: per feature, where its ids stand in local."""

    dim: int
    dealt: Dealt
    slots: list[Slot]
    places: list[Tensor]


@dataclass(frozen=True)
class Plan:
    """A batch with what it asks of each server.

    slots: all features, in the order of the block. pooled: those that the servers pool. value_type:
    in which values travel.
    """

    batch: Batch
    size: int
    slots: list[Slot]
    pooled: list[Slot]
    tables: list[RowsOfTable]
    questions: list[Question]
    value_type: torch.dtype


@dataclass
class _Draft:
    """The questions, part by part, while they are put together."""

    parts: list[Part] = field(default_factory=list)
    ids: list[Tensor] = field(default_factory=list)
    offsets: list[Tensor] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)

    def question(self, bags: int, dtype: torch.dtype, value_type: torch.dtype) -> Question:
        return Question(
            bags,
            self.parts,
            joined(self.ids, dtype),
            joined(self.offsets, torch.int32),
            joined(self.weights, torch.float32),
            value_type,
        )


class Planner:
    """Makes plans; one for each trainer, used by one thread. value_type: on the wire."""

    def __init__(
        self,
        tables: Sequence[Table],
        num_servers: int,
        kernels: TrainerKernels,
        pool_on: PoolOn,
        *,
        value_type: torch.dtype = torch.float32,
        sharding: Sharding = "range",
    ) -> None:
        self._tables, self._num_servers, self._kernels = tuple(tables), num_servers, kernels
        self._place = PoolingPlace(
            num_servers, value_type, pool_on if kernels.pools_on_servers else "trainers"
        )
        largest = max(-(-table.num_embeddings // num_servers) for table in tables)
        self._dtype = id_type(largest)
        self._value_type = value_type
        hashed = tables if sharding == "hash" else ()
        self._spreads = {one.name: spread_of(one.name, one.num_embeddings) for one in hashed}

    def plan(self, batch: Batch) -> Plan:
        """Make a plan.

        Raises TableError for an id out of range, ModelError for a feature that the data lacks.
        """
        drafts = [_Draft() for _ in range(self._num_servers)]
        slots: list[Slot] = []
        pooled: list[Slot] = []
        tables: list[tuple[int, Table, list[Slot], Dealt]] = []
        for number, table in enumerate(self._tables):
            own = _slots(table, batch.size, slots[-1].end if slots else 0)
            slots += own
            self._check(table, batch)
            rows = self._in_rows(table, batch)
            deal = functools.cache(functools.partial(self._deal, table, rows))
            if self._place.is_servers(table, rows, deal):
                for slot in own:
                    self._ask_vectors(number, table, rows.features[slot.name], drafts)
                pooled += own
            else:
                tables.append((number, table, own, deal()))
        of_rows = [
            _ask_rows(number, table, own, dealt, batch, drafts)
            for number, table, own, dealt in tables
        ]
        questions = [draft.question(batch.size, self._dtype, self._value_type) for draft in drafts]
        return Plan(batch, slots[-1].end, slots, pooled, of_rows, questions, self._value_type)

    def _in_rows(self, table: Table, batch: Batch) -> Batch:
        """Put rows in the place of a table's ids; all that follows knows rows alone."""
        spread = self._spreads.get(table.name)
        if spread is None:
            return batch
        features = dict(batch.features)
        for name in table.feature_names:
            bag = features[name]
            features[name] = replace(bag, values=self._kernels.rows_of(bag.values, spread))
        return replace(batch, features=features)

    def _deal(self, table: Table, batch: Batch) -> Dealt:
        ids = [batch.features[name].values for name in table.feature_names]
        return self._kernels.deal_rows(
            ids[0] if len(ids) == 1 else torch.cat(ids),
            table.num_embeddings,
            self._num_servers,
            self._dtype,
        )

    def _ask_vectors(self, number: int, table: Table, bag: Jagged, drafts: list[_Draft]) -> None:
        weighted = bag.weights is not None
        dim = table.embedding_dim
        if self._num_servers == 1:
            width = self._kernels.width(bag.offsets)
            width = width if width >= 0 else JAGGED
            (draft,) = drafts
            draft.parts.append(Part(number, dim, len(bag.values), width, weighted))
            draft.ids.append(bag.values.to(self._dtype))
            if width == JAGGED:
                draft.offsets.append(bag.offsets.to(torch.int32))
            if bag.weights is not None:
                draft.weights.append(bag.weights)
            return
        dealt = self._kernels.deal_bags(bag, table.num_embeddings, self._num_servers, self._dtype)
        for server, draft in enumerate(drafts):
            low, high = dealt.cuts[server : server + 2]
            draft.parts.append(Part(number, dim, high - low, JAGGED, weighted))
            draft.ids.append(dealt.local[low:high])
            draft.offsets.append(dealt.offsets[server])
            if dealt.weights is not None:
                draft.weights.append(dealt.weights[low:high])

    def _check(self, table: Table, batch: Batch) -> None:
        for name in table.feature_names:
            bag = _bag(table, name, batch)
            if bag.weights is not None and table.pooling != "sum":
                raise ModelError(
                    f"per-sample weights need pooling 'sum', not {table.pooling!r}: feature {name}"
                )
            if len(bag.values) == 0:
                continue
            low, high = self._kernels.bounds(bag.values)
            if low < 0 or high >= table.num_embeddings:
                raise TableError(
                    f"id {low if low < 0 else high} is out of range of table {table.name!r}, which "
                    f"has rows 0 to {table.num_embeddings - 1}: raise num_embeddings, or see the "
                    f"data of {', '.join(table.feature_names)}"
                )


def _slots(table: Table, bags: int, begin: int) -> list[Slot]:
    size = bags * table.embedding_dim
    return [
        Slot(name, table.embedding_dim, table.pooling, begin + i * size, begin + (i + 1) * size)
        for i, name in enumerate(table.feature_names)
    ]


def _ask_rows(
    number: int, table: Table, slots: list[Slot], dealt: Dealt, batch: Batch, drafts: list[_Draft]
) -> RowsOfTable:
    for server, draft in enumerate(drafts):
        low, high = dealt.cuts[server : server + 2]
        draft.parts.append(Part(number, table.embedding_dim, high - low, ROWS, weighted=False))
        draft.ids.append(dealt.local[low:high])
    counts = [len(batch.features[slot.name].values) for slot in slots]
    return RowsOfTable(table.embedding_dim, dealt, slots, list(dealt.places.split(counts)))


def _bag(table: Table, name: str, batch: Batch) -> Jagged:
    try:
        return batch.features[name]
    except KeyError:
        raise ModelError(
            f"table {table.name!r} wants the feature {name!r}, but the data has "
            f"{', '.join(sorted(batch.features)) or 'no categorical features'}"
        ) from None
