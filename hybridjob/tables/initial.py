"""How rows start: a function of seed, table and row alone, never of who holds the row."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch

from hybridjob.tables.data_types import torch_type
from hybridjob.tables.memory import empty

if TYPE_CHECKING:
    from torch import Tensor

    from hybridjob.schema import Table

# Rows are drawn in blocks, each from a generator of its own, so that a shard can begin anywhere.
_BLOCK_ROWS = 16_384


def initial_rows(table: Table, *, seed: int, start: int, stop: int) -> Tensor:
    """Draw rows start <= row < stop of a table: (stop - start, D) of its type.

    They are drawn as float32 and rounded to nearest.
    """
    rows = empty((stop - start, table.embedding_dim), torch_type(table.data_type))
    if table.initial == "zeros":
        return rows.zero_()
    for block in range(start // _BLOCK_ROWS, -(-stop // _BLOCK_ROWS)):
        first = block * _BLOCK_ROWS
        drawn = _draw(table, seed=seed, block=block)
        low, high = max(first, start), min(first + _BLOCK_ROWS, stop)
        rows[low - start : high - start] = drawn[low - first : high - first]
    return rows


def _draw(table: Table, *, seed: int, block: int) -> Tensor:
    size = min(_BLOCK_ROWS, table.num_embeddings - block * _BLOCK_ROWS)
    rows = torch.empty(size, table.embedding_dim)
    generator = torch.Generator().manual_seed(_seed_of(table.name, seed, block))
    if table.initial == "normal":
        return rows.normal_(0.0, table.initial_scale, generator=generator)
    return rows.uniform_(-table.initial_scale, table.initial_scale, generator=generator)


def _seed_of(name: str, seed: int, block: int) -> int:
    digest = hashlib.blake2b(f"{seed}/{name}/{block}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1  # torch takes 63 bits
