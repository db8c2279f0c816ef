"""A trainer's side of the tables: which rows a batch needs, from whom, and where gradients go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from hybridjob.errors import ModelError, PeerError, TableError
from hybridjob.pooling import pool
from hybridjob.remote import start_call
from hybridjob.tables import server as remote_server
from hybridjob.tables.sharding import row_bounds, split_sorted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from hybridjob.data.batch import Batch, Jagged
    from hybridjob.rendezvous import World
    from hybridjob.schema import Table


@dataclass(frozen=True)
class TableRows:
    """The rows of one table that one batch needs, each once.

    ids: (U,) int64, ascending. rows: (U, D) float32, a leaf that collects the gradient.
    places: per feature, (N,) int64: where each id of its bags stands in ids.
    """

    ids: Tensor
    rows: Tensor
    places: dict[str, Tensor]


class TableClient:
    """Looks rows up and pushes gradients; one request to each server for all tables together."""

    def __init__(self, world: World, tables: Sequence[Table], device: torch.device) -> None:
        self._world, self._tables, self._device = world, tuple(tables), device
        self._bounds = [
            row_bounds(table.num_embeddings, world.layout.num_servers) for table in tables
        ]

    def lookup(self, batch: Batch, step: int) -> list[TableRows]:
        """Fetch the rows of a batch, table by table.

        Raises TableError for an id out of range, ModelError for a feature that the data lacks.
        """
        wanted = [_unique_ids(table, batch) for table in self._tables]
        slices = [
            split_sorted(ids, bounds) for (ids, _), bounds in zip(wanted, self._bounds, strict=True)
        ]
        calls = []
        for server, rank in enumerate(self._world.layout.server_ranks):
            local = [
                self._local_ids(table, ids, slices[table][server], server)
                for table, (ids, _) in enumerate(wanted)
            ]
            calls.append(start_call(self._world, rank, remote_server.lookup, local, step))
        replies = [pending.wait() for pending in calls]
        return [
            TableRows(ids, self._assemble(table, slices[table], replies), places)
            for table, (ids, places) in enumerate(wanted)
        ]

    def push(self, found: Sequence[TableRows], step: int, *, scale: float = 1.0) -> None:
        """Send the gradients that backward left, times `scale`, and wait until they are applied."""
        gradients = [_gradient(table, self._device).mul_(scale).cpu() for table in found]
        calls = []
        for server, rank in enumerate(self._world.layout.server_ranks):
            ids, parts = [], []
            for table, one in enumerate(found):
                part = split_sorted(one.ids, self._bounds[table])[server]
                ids.append(self._local_ids(table, one.ids, part, server))
                parts.append(_compact(gradients[table][part]))
            message = remote_server.Push(ids, parts)
            calls.append(
                start_call(self._world, rank, remote_server.push, self._world.index, message, step)
            )
        for pending in calls:
            pending.wait()

    def _local_ids(self, table: int, ids: Tensor, part: slice, server: int) -> Tensor:
        return ids[part] - self._bounds[table][server]

    def _assemble(
        self, table: int, slices: Sequence[slice], replies: Sequence[Sequence[Tensor]]
    ) -> Tensor:
        dim = self._tables[table].embedding_dim
        for server, (part, reply) in enumerate(zip(slices, replies, strict=True)):
            expected = (part.stop - part.start, dim)
            got = reply[table]
            if tuple(got.shape) != expected or got.dtype != torch.float32:
                raise PeerError(
                    f"server {server} sent {tuple(got.shape)} {got.dtype} for table "
                    f"{self._tables[table].name!r}, not {expected} float32"
                )
        rows = torch.cat([reply[table] for reply in replies]).to(self._device)
        return rows.requires_grad_()


def pooled(tables: Sequence[Table], found: Sequence[TableRows], batch: Batch) -> dict[str, Tensor]:
    """Pool every feature's bags: feature name -> (B, D)."""
    vectors = {}
    for table, rows in zip(tables, found, strict=True):
        device = rows.rows.device
        for name in table.feature_names:
            bag = batch.features[name]
            vectors[name] = pool(
                rows.rows,
                rows.places[name].to(device),
                bag.offsets.to(device),
                None if bag.weights is None else bag.weights.to(device),
                table.pooling,
            )
    return vectors


def _unique_ids(table: Table, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    bags = [_bag(table, name, batch) for name in table.feature_names]
    ids, inverse = torch.unique(torch.cat([bag.values for bag in bags]), return_inverse=True)
    if ids.numel() and (ids[0] < 0 or ids[-1] >= table.num_embeddings):
        bad = int(ids[0]) if ids[0] < 0 else int(ids[-1])
        raise TableError(
            f"id {bad} is out of range of table {table.name!r}, which has rows 0 to "
            f"{table.num_embeddings - 1}: raise num_embeddings, or see the data of "
            f"{', '.join(table.feature_names)}"
        )
    places = inverse.split([bag.values.numel() for bag in bags])
    return ids, dict(zip(table.feature_names, places, strict=True))


def _bag(table: Table, name: str, batch: Batch) -> Jagged:
    try:
        return batch.features[name]
    except KeyError:
        raise ModelError(
            f"table {table.name!r} wants the feature {name!r}, but the data has "
            f"{', '.join(sorted(batch.features)) or 'no categorical features'}"
        ) from None


def _gradient(found: TableRows, device: torch.device) -> Tensor:
    if found.rows.grad is None:
        return torch.zeros(found.rows.shape, device=device)
    return found.rows.grad


def _compact(view: Tensor) -> Tensor:
    # torch RPC sends a view's whole storage along.
    return view if view.untyped_storage().nbytes() == view.nbytes else view.clone()
