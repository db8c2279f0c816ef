"""The types in which rows are kept, and in which values travel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from hybridjob.schema import DataType

_TORCH_TYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}
_BITS: dict[torch.dtype, Any] = {torch.bfloat16: np.uint16, torch.float16: np.int16}


def torch_type(data_type: DataType | None) -> torch.dtype:
    """Give torch's name of a type; float32 for a table that says nothing."""
    return _TORCH_TYPES[data_type or "float32"]


def bits_of(tensor: Tensor) -> NDArray[Any]:
    """Give a flat tensor's memory as compiled kernels take it; no copy.

    numba knows no 16-bit floats: bfloat16 comes as uint16, float16 as int16, others as they are.
    """
    if tensor.dtype not in _BITS:
        return tensor.numpy()
    return tensor.view(torch.int16).numpy().view(_BITS[tensor.dtype])
