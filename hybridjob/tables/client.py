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
class Wanted:
    """What one batch wants of one table.

    ids: (U,) int64, ascending, each once. places: per feature, (N,) int64: where each id of its
    bags stands in ids. parts: which ids each server holds. local: those ids as the server counts.
    """

    ids: Tensor
    places: dict[str, Tensor]
    parts: list[slice]
    local: list[Tensor]


@dataclass(frozen=True)
class TableRows:
    """The rows that were wanted: (U, D) float32, a leaf that collects the gradient."""

    wanted: Wanted
    rows: Tensor


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
        wanted = [
            _wanted(table, bounds, batch)
            for table, bounds in zip(self._tables, self._bounds, strict=True)
        ]
        calls = [
            start_call(
                self._world, rank, remote_server.lookup, [one.local[server] for one in wanted], step
            )
            for server, rank in enumerate(self._world.layout.server_ranks)
        ]
        replies = [pending.wait() for pending in calls]
        return [
            TableRows(one, self._assemble(table, one, [reply[number] for reply in replies]))
            for number, (table, one) in enumerate(zip(self._tables, wanted, strict=True))
        ]

    def push(self, found: Sequence[TableRows], step: int, *, scale: float = 1.0) -> None:
        """Send the gradients that backward left, times `scale`, and wait until they are applied."""
        gradients = [_gradient(one, self._device).mul_(scale).cpu() for one in found]
        calls = []
        for server, rank in enumerate(self._world.layout.server_ranks):
            message = remote_server.Push(
                [one.wanted.local[server] for one in found],
                [
                    _compact(gradient[one.wanted.parts[server]])
                    for one, gradient in zip(found, gradients, strict=True)
                ],
            )
            index = self._world.index
            calls.append(start_call(self._world, rank, remote_server.push, index, message, step))
        for pending in calls:
            pending.wait()

    def _assemble(self, table: Table, wanted: Wanted, replies: Sequence[Tensor]) -> Tensor:
        for server, (part, reply) in enumerate(zip(wanted.parts, replies, strict=True)):
            expected = (part.stop - part.start, table.embedding_dim)
            if tuple(reply.shape) != expected or reply.dtype != torch.float32:
                raise PeerError(
                    f"server {server} sent {tuple(reply.shape)} {reply.dtype} for table "
                    f"{table.name!r}, not {expected} float32"
                )
        return torch.cat(list(replies)).to(self._device).requires_grad_()


def pooled(tables: Sequence[Table], found: Sequence[TableRows], batch: Batch) -> dict[str, Tensor]:
    """Pool every feature's bags: feature name -> (B, D)."""
    vectors = {}
    for table, rows in zip(tables, found, strict=True):
        device = rows.rows.device
        for name in table.feature_names:
            bag = batch.features[name]
            vectors[name] = pool(
                rows.rows,
                rows.wanted.places[name].to(device),
                bag.offsets.to(device),
                None if bag.weights is None else bag.weights.to(device),
                table.pooling,
            )
    return vectors


def _wanted(table: Table, bounds: Sequence[int], batch: Batch) -> Wanted:
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
    parts = split_sorted(ids, bounds)
    local = [ids[part] - bounds[server] for server, part in enumerate(parts)]
    return Wanted(ids, dict(zip(table.feature_names, places, strict=True)), parts, local)


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
