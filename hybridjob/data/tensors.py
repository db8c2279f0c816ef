"""Rows in numpy to a batch of tensors, without copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hybridjob.data.batch import Batch, Jagged

if TYPE_CHECKING:
    from hybridjob.data.rows import Bag, Rows


def to_batch(rows: Rows, position: dict[str, Any]) -> Batch:
    """Wrap rows, which must not be changed afterwards."""
    return Batch(
        dense=_tensor(rows.dense),
        features={name: _to_jagged(bag) for name, bag in rows.bags.items()},
        labels=_tensor(rows.labels),
        position=position,
    )


def _to_jagged(bag: Bag) -> Jagged:
    return Jagged(
        values=_tensor(bag.values),
        offsets=_tensor(bag.all_offsets()),
        weights=None if bag.weights is None else _tensor(bag.weights),
    )


def _tensor(array: Any) -> torch.Tensor:
    # Arrow's memory is read-only, which torch warns about: copy only then.
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))
