"""Memory of tables."""

from __future__ import annotations

import numpy as np
import torch


def empty(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Make an undefined tensor, in huge pages where the system has them.

    numpy asks Linux for huge pages, torch does not. Rows are read in any order: with small pages
    the processor spends up to a third of the time finding where they lie.
    """
    if dtype == torch.float32:
        return torch.from_numpy(np.empty(shape, np.float32))
    return torch.from_numpy(np.empty(shape, np.int16)).view(dtype)


def filled(shape: tuple[int, ...], value: float) -> torch.Tensor:
    """Make a float32 tensor of one value."""
    return empty(shape).fill_(value)
