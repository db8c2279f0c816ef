"""Who pools a table's bags, the servers or each trainer its own: what moves fewer bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from hybridjob.config import PoolOn
    from hybridjob.data.batch import Batch
    from hybridjob.schema import Table
    from hybridjob.tables.dealt import Dealt

_PARTIAL_BYTES, _ID_BYTES = 8, 4
_MEASURE_EVERY = 64
"""Batches after which distinct ids are counted again where the servers pool; in each batch where
the choice must not depend on those before, since a restart would forget them."""
_OWN_WORK = 2.0
"""Bytes of rows count so much more: the trainer has to deal and to pool them."""


class PoolingPlace:
    """The choice for each batch and table. value_type: in which values travel."""

    def __init__(self, num_servers: int, value_type: torch.dtype, pool_on: PoolOn) -> None:
        self._num_servers, self._pool_on = num_servers, pool_on
        self._value_bytes = value_type.itemsize
        self._measure_every = _MEASURE_EVERY if value_type == torch.float32 else 1
        self._distinct_share: dict[str, float] = {}
        self._age: dict[str, int] = {}

    def is_servers(self, table: Table, batch: Batch, deal: Callable[[], Dealt]) -> bool:
        """Tell whether the servers pool a table. deal: finds the batch's distinct ids."""
        if table.pooling == "max" or self._pool_on != "auto":
            return table.pooling != "max" and self._pool_on == "servers"
        count = sum(len(batch.features[name].values) for name in table.feature_names)
        if count == 0:
            return False
        age = self._age.get(table.name, 0)
        if age % self._measure_every == 0:
            self._distinct_share[table.name] = len(deal().local) / count
        self._age[table.name] = age + 1
        distinct = self._distinct_share[table.name] * count
        vectors = len(table.feature_names) * batch.size * table.embedding_dim
        answer = self._value_bytes if self._num_servers == 1 else _PARTIAL_BYTES
        bytes_pooled = self._num_servers * vectors * (answer + self._value_bytes)
        bytes_pooled += count * _ID_BYTES
        bytes_rows = distinct * (2 * table.embedding_dim * self._value_bytes + _ID_BYTES)
        return bytes_pooled <= _OWN_WORK * bytes_rows
