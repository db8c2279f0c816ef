"""Arrow columns in the type that is needed; cells that do not fit become null and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hybridjob.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hybridjob.data.faults import Faults

_SHOWN = 60
_EXPECTED = {
    pa.string(): "text in UTF-8",
    pa.float64(): "a number",
    pa.int64(): "a whole number",
}


def plain(column: Any) -> Any:
    """Make one arrow array of a chunked or dictionary-encoded column."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # older arrow returns one of a single chunk
        column = column.chunk(0) if column.num_chunks else pa.array([], type=column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    return column


def is_list(array: Any) -> bool:
    """Whether each cell is a list of values."""
    kind = pa.types
    return bool(
        kind.is_list(array.type)
        or kind.is_large_list(array.type)
        or kind.is_fixed_size_list(array.type)
    )


def null_mask(array: Any) -> NDArray[np.bool_]:
    """Tell which values are null (N,)."""
    if array.null_count == 0:
        return np.zeros(len(array), dtype=np.bool_)
    mask: NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def as_text(array: Any, column: str, faults: Faults, rows: NDArray[np.int64] | None = None) -> Any:
    """Give an arrow string array."""
    return _cast(array, pa.string(), column, faults, rows)


def as_floats(
    array: Any, column: str, faults: Faults, rows: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Give numbers, NaN where null."""
    if _is_texty(array):
        array = pc.utf8_trim_whitespace(as_text(array, column, faults, rows))
    cast = _cast(array, pa.float64(), column, faults, rows)
    numbers: NDArray[np.float64] = cast.to_numpy(zero_copy_only=False)
    return numbers


def as_whole_numbers(
    array: Any, column: str, faults: Faults, rows: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Give integers, 0 where null."""
    if _is_texty(array):
        array = pc.utf8_trim_whitespace(as_text(array, column, faults, rows))
    cast = _cast(array, pa.int64(), column, faults, rows)
    if cast.null_count:
        cast = cast.fill_null(0)
    numbers: NDArray[np.int64] = cast.to_numpy(zero_copy_only=False)
    return numbers


def shown(array: Any, place: int) -> str:
    """Write a cell for a message, cut if it is long."""
    value = array[place].as_py()
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _is_texty(array: Any) -> bool:
    kind = pa.types
    return bool(
        kind.is_string(array.type)
        or kind.is_large_string(array.type)
        or kind.is_binary(array.type)
        or kind.is_large_binary(array.type)
    )


def _cast(
    array: Any, target: Any, column: str, faults: Faults, rows: NDArray[np.int64] | None
) -> Any:
    if array.type.equals(target):
        return array
    try:
        return array.cast(target)
    except pa.ArrowNotImplementedError as error:
        raise DataError(
            f"column {column!r} holds {array.type}, but {_EXPECTED[target]} is expected"
        ) from error
    except pa.ArrowInvalid:
        bad = np.zeros(len(array), dtype=np.bool_)
        bad[_misfits(array, target, 0)] = True
    faults.add(column, bad, lambda place: f"{shown(array, place)} is not {_EXPECTED[target]}", rows)
    return pc.if_else(pa.array(bad), pa.scalar(None, array.type), array).cast(target)


def _misfits(array: Any, target: Any, first: int) -> list[int]:
    """Find the cells that cannot be cast, by halving."""
    try:
        array.cast(target)
    except pa.ArrowInvalid:
        if len(array) == 1:
            return [first]
        half = len(array) // 2
        left = _misfits(array.slice(0, half), target, first)
        return left + _misfits(array.slice(half), target, first + half)
    return []
