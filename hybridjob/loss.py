"""The losses by name: each gives the mean over the samples of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor

from hybridjob.errors import ModelError

if TYPE_CHECKING:
    from torch import nn

Loss = Callable[[Tensor, Tensor], Tensor]


def _bce(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(one_value(outputs, labels), labels.float())


def _cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    if outputs.ndim != 2:  # noqa: PLR2004
        raise ModelError(
            f"the model gives outputs of shape {tuple(outputs.shape)}: training.loss = "
            "'cross_entropy' wants one value a class, (B, C)"
        )
    return F.cross_entropy(outputs, labels.long())


def _mse(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.mse_loss(one_value(outputs, labels), labels.float())


_LOSSES: dict[str, Loss] = {"bce": _bce, "cross_entropy": _cross_entropy, "mse": _mse}


def loss_of(module: nn.Module, name: str) -> Loss:
    """Give the module's own `loss(outputs, labels)` if it has one, else the one of this name."""
    own = getattr(module, "loss", None)
    return own if callable(own) else _LOSSES[name]


def one_value(outputs: Tensor, labels: Tensor) -> Tensor:
    """Give outputs the labels' shape: (B,) or (B, 1) -> (B,)."""
    if outputs.shape == labels.shape:
        return outputs
    if outputs.shape == (*labels.shape, 1):
        return outputs.squeeze(-1)
    raise ModelError(
        f"the model gives outputs of shape {tuple(outputs.shape)} for labels of shape "
        f"{tuple(labels.shape)}: this loss wants one value a sample"
    )
