"""Memory of tables."""

from __future__ import annotations

import numpy as np
import torch


def empty(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Make an undefined tensor, in huge pages where the system has them.

    numpy asks Linux for huge pages, torch does not. Rows are read in any order: with small pages
    the processor spends up to a third of the time finding where they lie.
    """
    integers = np.int32 if dtype.itemsize == torch.int32.itemsize else np.int16
    return torch.from_numpy(np.empty(shape, integers)).view(dtype)  # numpy knows no bfloat16


def filled(shape: tuple[int, ...], value: float) -> torch.Tensor:
    """Make a float32 tensor of one value."""
    return empty(shape).fill_(value)
