"""Stochastic rounding of rows to 16-bit floats: up or down by chance, right on average.

Rounded to the nearest, a row forgets every change that is less than half the distance to the next
number, and in bfloat16 that is 1/512 of a value. Rounded by chance, it moves as far on average as
in float32 (Gupta et al., arXiv:1502.02551, section 3).

Chance is a function of seed, table, step, row and column alone: neither threads, nor servers, nor
a restart change a bit. This is the reference; compiled kernels draw the same in
hybridjob.tables.rounding_kernels.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import torch

from hybridjob.data.hashing import mix

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    Words = NDArray[np.uint32]

_MAGNITUDE, _INFINITE = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000)
_LEAST_NORMAL, _TOO_LARGE = np.uint32(113 << 23), np.uint32(143 << 23)
"""2^-14, float16's least with all its bits, and 2^16, the first beyond it."""


def key_of_step(seed: int, table: str, step: int) -> int:
    """Draw the 64 bits from which all of a table's chance in one step comes."""
    digest = hashlib.blake2b(f"{seed}/{table}/{step}".encode(), digest_size=8, person=b"rounding")
    return int.from_bytes(digest.digest(), "little")


def round_by_chance(values: Tensor, dtype: torch.dtype, *, key: int, rows: Tensor) -> Tensor:
    """Round (U, D) float32 to bfloat16 or float16.

    key: of the step. rows: (U,) int64, their numbers in the whole table. What is beyond the type's
    range becomes infinite; infinite and nan stay.
    """
    noise = _noise(key, rows.numpy().astype(np.uint64), values.shape[1])
    bits = values.contiguous().numpy().view(np.uint32)
    found = _to_bfloat16(bits, noise) if dtype == torch.bfloat16 else _to_float16(bits, noise)
    return torch.from_numpy(found.astype(np.uint16).view(np.int16)).view(dtype)


def _noise(key: int, rows: NDArray[np.uint64], columns: int) -> Words:
    """Draw 32 bits for each value: 64 for its row, scattered over the columns.

    The scattering is Wellons' lowbias32, https://nullprogram.com/blog/2018/07/31/: in a compiled
    loop eight values take it at once, which no multiplication of 64 bits allows.
    """
    keys = mix(rows ^ np.uint64(key))[:, None]
    mixed = keys.astype(np.uint32) + np.arange(columns, dtype=np.uint32) * np.uint32(0x9E3779B9)
    mixed = (mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x7FEB352D)
    mixed = (mixed ^ (mixed >> np.uint32(15))) * np.uint32(0x846CA68B)
    noise: Words = mixed ^ (mixed >> np.uint32(16)) ^ (keys >> np.uint64(32)).astype(np.uint32)
    return noise


def _to_bfloat16(bits: Words, noise: Words) -> Words:
    up_or_down = (bits + (noise & np.uint32(0xFFFF))) >> np.uint32(16)
    is_nan = (bits & _MAGNITUDE) > _INFINITE
    return np.where(is_nan, (bits >> np.uint32(16)) | np.uint32(0x40), up_or_down)


def _to_float16(bits: Words, noise: Words) -> Words:
    magnitude = bits & _MAGNITUDE
    normal = (magnitude + (noise & np.uint32(0x1FFF)) - np.uint32(112 << 23)) >> np.uint32(13)
    # Below, numbers are 2^-24 apart: count those, and compare the rest with a chance in [0, 1).
    small = np.where(magnitude < _LEAST_NORMAL, magnitude, np.uint32(0))
    count = small.view(np.float32) * np.float32(2.0**24)
    whole = np.floor(count)
    chance = (noise >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    subnormal = (whole + (chance < count - whole)).astype(np.uint32)
    found = np.where(magnitude < _LEAST_NORMAL, subnormal, normal)
    found = np.where(magnitude >= _TOO_LARGE, np.uint32(0x7C00), found)
    found = np.where(magnitude > _INFINITE, np.uint32(0x7E00), found)
    signed: Words = found | ((bits >> np.uint32(16)) & np.uint32(0x8000))
    return signed
