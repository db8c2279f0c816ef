"""Scores of the held-out rows.

N test samples over all trainers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F

from hybridjob.loss import one_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray
    from torch import Tensor


def area_under_roc(scores: NDArray[np.float64], labels: NDArray[np.bool_]) -> float:
    """Give the probability that a positive scores above a negative, ties counting half.

    scores, labels: (N,). The Mann-Whitney statistic over average ranks. NaN with one class only.
    """
    positives = int(labels.sum())
    negatives = labels.size - positives
    if positives == 0 or negatives == 0:
        return float("nan")
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2)[inverse]
    return float((ranks[labels].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def gather_rows(values: Tensor) -> Tensor | None:
    """Collect every trainer's rows at trainer 0, in the trainers' order; None elsewhere.

    values: (n, ...) with the same trailing shape on every trainer, n may differ.
    """
    size = torch.tensor([values.shape[0]])
    sizes = [torch.empty_like(size) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, size)
    longest = max(int(one) for one in sizes)
    padded = values.new_zeros(longest, *values.shape[1:])
    padded[: values.shape[0]] = values
    first = dist.get_rank() == 0
    parts = [torch.empty_like(padded) for _ in sizes] if first else None
    dist.gather(padded, parts, dst=0)
    if parts is None:
        return None
    return torch.cat([part[: int(one)] for part, one in zip(parts, sizes, strict=True)])


def binary_metrics(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Score logits, (N,), against labels of 0 and 1, (N,): auc, logloss, accuracy."""
    labels = labels.float()
    return {
        "auc": area_under_roc(logits.double().numpy(), labels.numpy() > 0.5),  # noqa: PLR2004
        "logloss": float(F.binary_cross_entropy_with_logits(logits, labels)),
        "accuracy": float(((logits > 0) == (labels > 0.5)).float().mean()),  # noqa: PLR2004
    }


def class_metrics(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Score logits, (N, C), against classes, (N,): logloss, accuracy."""
    return {
        "logloss": float(F.cross_entropy(logits, labels.long())),
        "accuracy": float((logits.argmax(dim=1) == labels).float().mean()),
    }


def value_metrics(outputs: Tensor, labels: Tensor) -> dict[str, float]:
    """Score predicted values, (N,), against the true ones, (N,): mse, mae."""
    return {
        "mse": float(F.mse_loss(outputs, labels)),
        "mae": float(F.l1_loss(outputs, labels)),
    }


def evaluate(predictions: Iterable[tuple[Tensor, Tensor]], loss: str) -> dict[str, float]:
    """Score all trainers' predictions together; empty where this is not trainer 0.

    predictions: outputs (n, ...) and labels (n,) of this trainer, batch by batch.
    """
    parts = list(predictions)
    width = torch.tensor([parts[0][0].shape[1] if parts and parts[0][0].ndim > 1 else 0])
    dist.all_reduce(width, op=dist.ReduceOp.MAX)  # a trainer without test rows does not know it
    empty = torch.empty(0, int(width)) if int(width) else torch.empty(0)
    outputs = gather_rows(torch.cat([empty, *(one for one, _ in parts)]))
    labels = gather_rows(torch.cat([torch.empty(0), *(one.float() for _, one in parts)]))
    if outputs is None or labels is None or labels.numel() == 0:
        return {}
    if loss == "cross_entropy":
        return class_metrics(outputs, labels)
    outputs = one_value(outputs, labels)
    return binary_metrics(outputs, labels) if loss == "bce" else value_metrics(outputs, labels)
