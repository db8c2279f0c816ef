"""The head of a safetensors file: 8 bytes of length, then JSON that names every tensor.

Written and read here, not by the library, so that hashes are taken of the very bytes that go to
the disk, and come from it, in one pass. https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from hybridjob.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_TYPES = {name: kind for kind, name in _NAMES.items()}
_LENGTH_BYTES = 8
_MOST_BYTES = 100_000_000  # what the library accepts


@dataclass(frozen=True)
class Place:
    """Where a tensor lies in a file: its bytes are start <= offset < stop."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Streamed:
    """A tensor that is read when it is written; `read(start, stop)` gives some of its rows."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    read: Callable[[int, int], Tensor]

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.element_size()

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize


def in_order(tensors: Mapping[str, Tensor | Streamed]) -> list[str]:
    """Give the names in the order of the file: wide elements first, so that all are aligned."""
    return sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))


def render_header(tensors: Mapping[str, Tensor | Streamed]) -> bytes:
    """Write the head. Raises CheckpointError for a type that the format has not."""
    places, offset = {}, 0
    for name in in_order(tensors):
        tensor = tensors[name]
        if tensor.dtype not in _NAMES:
            raise CheckpointError(f"tensor {name!r} is of {tensor.dtype}, which safetensors lacks")
        places[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + tensor.nbytes],
        }
        offset += tensor.nbytes
    text = json.dumps(places, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def head_bytes(first: bytes) -> int:
    """Give the bytes of the whole head, from its first 8. Raises ValueError if it is none."""
    length = int.from_bytes(first, "little")
    if len(first) < _LENGTH_BYTES or length > _MOST_BYTES:
        raise ValueError("there is no safetensors header")
    return _LENGTH_BYTES + length


def parse_header(head: bytes) -> dict[str, Place]:
    """Read a whole head. Raises ValueError, KeyError or TypeError if it is none."""
    found = {}
    for name, one in json.loads(head[_LENGTH_BYTES:]).items():
        if name == "__metadata__":
            continue
        start, stop = one["data_offsets"]
        found[name] = Place(
            dtype=_TYPES[one["dtype"]],
            shape=tuple(one["shape"]),
            start=len(head) + start,
            stop=len(head) + stop,
        )
    return found
