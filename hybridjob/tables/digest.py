"""A hash of tables that does not depend on how many servers hold them.

Each row is hashed by a multilinear hash over its values' bits (Dietzfelbinger et al., "Polynomial
hash functions are reliable", 1992; here modulo 2^64 with odd multipliers, so that one changed word
always shows), mixed with the row's number by splitmix64's finalizer, and the rows' hashes are
summed modulo 2^64. Sums of shards add up to the table's, whatever the cuts.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from hybridjob.tables.shard import Shard

_CHUNK_ROWS = 32_768
_WORD = (1 << 64) - 1
RowSums = dict[str, tuple[int, int]]
"""`table/tensor` -> two sums of 64 bits with independent multipliers."""


def shard_sums(shard: Shard) -> RowSums:
    """Hash a shard's rows and optimizer state."""
    return {
        f"{shard.table.name}/{name}": _tensor_sums(
            tensor, shard.start, f"{shard.table.name}/{name}"
        )
        for name, tensor in shard.tensors.items()
    }


def add_sums(parts: Iterable[RowSums]) -> RowSums:
    """Add up the sums of all servers."""
    total: RowSums = {}
    for part in parts:
        for name, (first, second) in part.items():
            one, two = total.get(name, (0, 0))
            total[name] = ((one + first) & _WORD, (two + second) & _WORD)
    return total


def dense_digest(tensors: Mapping[str, Tensor]) -> str:
    """Hash named tensors, such as a module's parameters and its optimizer's state."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        values = np.ascontiguousarray(tensor.detach().cpu().numpy())
        digest.update(json.dumps([name, str(values.dtype), list(values.shape)]).encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def state_digest(tables: RowSums, dense: str, step: int) -> str:
    """Hash the whole state of a run into one string."""
    parts = [[name, *sums] for name, sums in sorted(tables.items())]
    return hashlib.sha256(json.dumps([parts, dense, step]).encode()).hexdigest()


def _tensor_sums(tensor: Tensor, first_row: int, salt: str) -> tuple[int, int]:
    if tensor.shape[0] == 0:
        return 0, 0
    rows = _words(tensor.reshape(tensor.shape[0], -1))
    multipliers = [_multipliers(f"{salt}/{which}", rows.shape[1]) for which in (0, 1)]
    sums = [0, 0]
    for begin in range(0, rows.shape[0], _CHUNK_ROWS):
        chunk = rows[begin : begin + _CHUNK_ROWS]
        words = chunk.astype(np.uint64)
        numbers = np.arange(first_row + begin, first_row + begin + len(chunk), dtype=np.uint64)
        for which in (0, 1):
            hashes = (words * multipliers[which]).sum(axis=1, dtype=np.uint64)
            mixed = _mix(hashes + _mix(numbers + np.uint64(1 + which)))
            sums[which] = (sums[which] + int(mixed.sum(dtype=np.uint64))) & _WORD
    return sums[0], sums[1]


def _words(rows: Tensor) -> NDArray[Any]:
    """Give the bits of (n, D) values of 32 or 16 bits as unsigned numbers; no copy."""
    if rows.element_size() == torch.float32.itemsize:
        return rows.view(torch.int32).numpy().view(np.uint32)
    return rows.view(torch.int16).numpy().view(np.uint16)


def _multipliers(salt: str, count: int) -> NDArray[np.uint64]:
    seed = int.from_bytes(hashlib.blake2b(salt.encode(), digest_size=8).digest(), "little")
    drawn = _mix(np.arange(count, dtype=np.uint64) + np.uint64(seed))
    return drawn | np.uint64(1)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Finalize as splitmix64 does (Steele, Lea and Flood, OOPSLA 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
