"""All random generators that a model or its data may draw from: torch's, numpy's and Python's."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor


def seed_all(seed: int) -> None:
    """Begin every generator's sequence anew."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - a user's model may draw from the global one


def capture(device: torch.device) -> dict[str, Tensor]:
    """Give the state of every generator as tensors."""
    version, words, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002 - as above
    state = {
        "torch": torch.get_rng_state(),
        "python/words": torch.tensor([version, *words], dtype=torch.int64),
        "python/gauss": torch.tensor([math.nan if gauss is None else gauss], dtype=torch.float64),
        "numpy/keys": torch.from_numpy(np.asarray(keys, dtype=np.int64)),
        "numpy/more": torch.tensor([position, has_gauss, cached], dtype=torch.float64),
    }
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def restore(state: Mapping[str, Tensor], device: torch.device) -> None:
    """Put every generator where `capture` found it."""
    torch.set_rng_state(state["torch"])
    version, *words = state["python/words"].tolist()
    gauss = float(state["python/gauss"])
    random.setstate((version, tuple(words), None if math.isnan(gauss) else gauss))
    position, has_gauss, cached = state["numpy/more"].tolist()
    keys = state["numpy/keys"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, int(position), int(has_gauss), cached))  # noqa: NPY002
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
