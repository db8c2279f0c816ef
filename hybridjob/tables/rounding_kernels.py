"""Parts of compiled loops that know 16-bit floats, of which numba knows none.

Values are elements of what hybridjob.tables.data_types.bits_of gives: float32, bfloat16 as uint16,
float16 as int16. Their type decides, while a loop is compiled, what these functions do: so one loop
serves all types, and for float32 nothing is added. They take and give numbers, never arrays, of
which numba would count the references in every turn.

numba keeps compiled loops as long as their own file stays as it is: after a change here, touch the
files of the kernels that use it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload

from hybridjob.tables.jit import bits_of_float, float_of_bits, inlined, scattered

_SIGN, _MAGNITUDE, _INFINITE = 0x80000000, 0x7FFFFFFF, 0x7F800000
_OTHER_BIAS = 112 << 23
"""float32's exponents count from -127, float16's from -15."""
_LEAST_NORMAL, _TOO_LARGE = 113 << 23, 143 << 23
"""2^-14, float16's least with all its bits, and 2^16, the first beyond it."""
_HALF = 126 << 23
"""0.5, whose neighbours are as far away as float16's least numbers are from each other."""


def widened(value: Any) -> Any:
    """Give a value as float32, exactly."""
    raise NotImplementedError


def nearest(value: Any, like: Any) -> Any:
    """Give a value of any type in that of `like`: as it is, or rounded to nearest, ties to even."""
    raise NotImplementedError


def lowered(value: Any, change: Any, key: Any, column: Any) -> Any:
    """Give value - change, taken in float32, in the value's type: rounded by chance.

    key: of the row, see `key_of_row`. The chance is that of hybridjob.tables.rounding.
    """
    raise NotImplementedError


@inlined
def key_of_row(key: Any, row: Any) -> Any:
    """Give the 64 bits of chance of a row in a step; row: its number in the whole table."""
    mixed = (key ^ np.uint64(row)) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


# What each of them does for each type -------------------------------------------------------------


@inlined
def _noise(key: Any, column: Any) -> Any:
    scattered_low = scattered(np.uint32(key), np.uint32(column))
    return np.uint32(scattered_low ^ np.uint32(key >> np.uint64(32)))


def _same(value: Any) -> Any:
    return value


def _of_bfloat16(value: Any) -> Any:
    return float_of_bits(np.uint32(np.uint32(value) << np.uint32(16)))


def _of_float16(value: Any) -> Any:
    """Give float32; Giesen, https://fgiesen.wordpress.com/2012/03/28/half-to-float-done-quic/."""
    sign = np.uint32((np.uint32(value) & np.uint32(0x8000)) << np.uint32(16))
    magnitude = np.uint32((np.uint32(value) & np.uint32(0x7FFF)) << np.uint32(13))
    bits = np.uint32(magnitude + np.uint32(_OTHER_BIAS))
    if magnitude >= np.uint32(0x7C00 << 13):  # infinite or nan
        bits = np.uint32(bits + np.uint32(_OTHER_BIAS))
    small = float_of_bits(np.uint32(magnitude + np.uint32(_LEAST_NORMAL)))
    small -= float_of_bits(np.uint32(_LEAST_NORMAL))
    if magnitude < np.uint32(1 << 23):
        bits = bits_of_float(small)
    return float_of_bits(np.uint32(bits | sign))


def _unchanged(value: Any, like: Any) -> Any:  # noqa: ARG001 - numba wants the names of `nearest`
    return value


def _nearest_float32(value: Any, like: Any) -> Any:  # noqa: ARG001
    return widened(value)


def _nearest_bfloat16(value: Any, like: Any) -> Any:  # noqa: ARG001
    bits = bits_of_float(widened(value))
    if (bits & np.uint32(_MAGNITUDE)) > np.uint32(_INFINITE):
        return np.uint16((bits >> np.uint32(16)) | np.uint32(0x40))
    to_even = (bits >> np.uint32(16)) & np.uint32(1)
    return np.uint16((bits + np.uint32(0x7FFF) + to_even) >> np.uint32(16))


def _nearest_float16(value: Any, like: Any) -> Any:  # noqa: ARG001
    bits = bits_of_float(widened(value))
    magnitude = np.uint32(bits & np.uint32(_MAGNITUDE))
    to_even = (magnitude >> np.uint32(13)) & np.uint32(1)
    found = np.uint32(magnitude + np.uint32(0xFFF) + to_even - np.uint32(_OTHER_BIAS))
    found = np.uint32(found >> np.uint32(13))
    if magnitude < np.uint32(_LEAST_NORMAL):
        small = float_of_bits(magnitude) + np.float32(0.5)
        found = np.uint32(bits_of_float(small) - np.uint32(_HALF))
    if magnitude >= np.uint32(_TOO_LARGE):
        found = np.uint32(0x7C00)
    if magnitude > np.uint32(_INFINITE):
        found = np.uint32(0x7E00)
    return np.int16(found | ((bits >> np.uint32(16)) & np.uint32(0x8000)))


def _lowered_float32(value: Any, change: Any, key: Any, column: Any) -> Any:  # noqa: ARG001
    return value - change


def _lowered_bfloat16(value: Any, change: Any, key: Any, column: Any) -> Any:
    bits = bits_of_float(widened(value) - change)
    if (bits & np.uint32(_MAGNITUDE)) > np.uint32(_INFINITE):
        return np.uint16((bits >> np.uint32(16)) | np.uint32(0x40))
    return np.uint16((bits + (_noise(key, column) & np.uint32(0xFFFF))) >> np.uint32(16))


def _lowered_float16(value: Any, change: Any, key: Any, column: Any) -> Any:
    bits = bits_of_float(widened(value) - change)
    noise = _noise(key, column)
    magnitude = np.uint32(bits & np.uint32(_MAGNITUDE))
    found = np.uint32(magnitude + (noise & np.uint32(0x1FFF)) - np.uint32(_OTHER_BIAS))
    found = np.uint32(found >> np.uint32(13))
    if magnitude < np.uint32(_LEAST_NORMAL):
        # Numbers are 2^-24 apart here: count those, and compare the rest with a chance in [0, 1).
        count = float_of_bits(magnitude) * np.float32(2.0**24)
        whole = np.int32(count)
        chance = np.float32(np.int32(noise >> np.uint32(8))) * np.float32(2.0**-24)
        found = np.uint32(whole + (chance < count - np.float32(whole)))
    if magnitude >= np.uint32(_TOO_LARGE):
        found = np.uint32(0x7C00)
    if magnitude > np.uint32(_INFINITE):
        found = np.uint32(0x7E00)
    return np.int16(found | ((bits >> np.uint32(16)) & np.uint32(0x8000)))


_WIDENED = {types.float32: _same, types.uint16: _of_bfloat16, types.int16: _of_float16}
_NEAREST = {
    types.float32: _nearest_float32,
    types.uint16: _nearest_bfloat16,
    types.int16: _nearest_float16,
}
_LOWERED = {
    types.float32: _lowered_float32,
    types.uint16: _lowered_bfloat16,
    types.int16: _lowered_float16,
}


@overload(widened)
def _choose_widened(value: Any) -> Any:
    return _WIDENED[value]


@overload(nearest)
def _choose_nearest(value: Any, like: Any) -> Any:
    return _unchanged if value == like else _NEAREST[like]


@overload(lowered)
def _choose_lowered(value: Any, change: Any, key: Any, column: Any) -> Any:  # noqa: ARG001
    return _LOWERED[value]
