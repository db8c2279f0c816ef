"""What trainers and servers say to each other: one question and one answer a server and step.

B bags, D columns of a table. A message holds few tensors, each of many parts: the transport costs
more by the tensor than by the byte.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch

from hybridjob.errors import PeerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

ROWS = -1
"""Width of a part whose rows are wanted as they are."""
JAGGED = -2
"""Width of a part whose bags differ in size: offsets tell."""
_LARGEST_INT32 = 2**31 - 1
_LARGEST_EXPONENT = 15
"""float16 goes to just below 2^16; one less, so that rounding up stays below."""
_LARGEST_POWER = 100
"""2^100 and its inverse are ordinary float32 numbers; no gradient needs more."""


class Part(NamedTuple):
    """Ids of one table, and what is wanted of them: B pooled vectors, or each id's row.

    width: how many ids every bag has, or ROWS or JAGGED. dim: D.
    """

    table: int
    dim: int
    num_ids: int
    width: int
    weighted: bool


@dataclass(frozen=True)
class Question:
    """What one batch wants of one server. The parts to be pooled come first.

    ids: (N,) int32, or int64 for very large shards, part after part, as the server counts its rows.
    offsets: int32, B + 1 for each jagged part. weights: float32, one for each id of weighted parts.
    value_type: of the answer and of its gradient.
    """

    bags: int
    parts: list[Part]
    ids: Tensor
    offsets: Tensor
    weights: Tensor
    value_type: torch.dtype = torch.float32

    def size_of(self, part: Part) -> int:
        """Count the values of a part's answer, and of its gradient."""
        return part.dim * (part.num_ids if part.width == ROWS else self.bags)


@dataclass(frozen=True)
class Cut:
    """One part of a question, cut out: see Question. None: bags of one width; weights of one."""

    part: Part
    ids: Tensor
    offsets: Tensor | None
    weights: Tensor | None
    size: int


@dataclass(frozen=True)
class Answer:
    """What a server gives: part after part.

    sums: pooled vectors, of the question's type if there is one server, else float64, to be added
    to the other servers'. rows: of the question's type. lag: steps of pushes that the rows lack.
    seconds: what the server has spent in each of its phases since it last told.
    """

    sums: Tensor
    rows: Tensor
    lag: int
    seconds: dict[str, float]


def cut(question: Question) -> list[Cut]:
    """Take a question apart, without copies."""
    found = []
    id_at = offset_at = weight_at = 0
    for part in question.parts:
        ids = question.ids[id_at : id_at + part.num_ids]
        id_at += part.num_ids
        offsets = weights = None
        if part.width == JAGGED:
            offsets = question.offsets[offset_at : offset_at + question.bags + 1]
            offset_at += question.bags + 1
        if part.weighted:
            weights = question.weights[weight_at : weight_at + part.num_ids]
            weight_at += part.num_ids
        found.append(Cut(part, ids, offsets, weights, question.size_of(part)))
    return found


def id_type(num_rows: int) -> torch.dtype:
    """Give the type of ids on the wire for shards of so many rows."""
    return torch.int32 if num_rows <= _LARGEST_INT32 else torch.int64


def joined(parts: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """Put parts one after another, in memory of their own: the transport sends whole storages."""
    if not parts:
        return torch.empty(0, dtype=dtype)
    return compact(torch.cat(list(parts)) if len(parts) > 1 else parts[0])


def compact(tensor: Tensor) -> Tensor:
    """Give a tensor alone in its memory, contiguous."""
    if tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def packed(gradients: Sequence[Tensor], value_type: torch.dtype) -> tuple[list[Tensor], float]:
    """Turn a trainer's gradients for all servers, float32, to the type that travels.

    Returns them with the power of two that float16's were multiplied with: so that the largest is
    just below that type's largest number, and the small ones keep what bits they can. It is one for
    all servers, however many there are. Other types hold what float32 does, with the power 1.
    """
    power = 1.0
    if value_type == torch.float16:
        largest = max((float(one.abs().max()) for one in gradients if len(one)), default=0.0)
        if 0 < largest < math.inf:  # nan is neither
            power = 2.0 ** min(_LARGEST_EXPONENT - math.frexp(largest)[1], _LARGEST_POWER)
    if power != 1.0:
        gradients = [one * power for one in gradients]
    return [one.to(value_type) for one in gradients], power


def unpacked(gradient: Tensor, power: float) -> Tensor:
    """Turn a gradient that has travelled back to float32."""
    gradient = gradient.float()
    return gradient if power == 1.0 else gradient.mul_(1 / power)


def check_answer(answer: Answer, question: Question, server: int, sums: torch.dtype) -> None:
    """Raise PeerError if an answer is not of the shape and type that were asked for."""
    sizes = [0, 0]
    for part in question.parts:
        sizes[part.width == ROWS] += question.size_of(part)
    for what, tensor, size, dtype in (
        ("sums", answer.sums, sizes[0], sums),
        ("rows", answer.rows, sizes[1], question.value_type),
    ):
        if tuple(tensor.shape) != (size,) or tensor.dtype != dtype:
            raise PeerError(
                f"server {server} sent {what} of shape {tuple(tensor.shape)}, {tensor.dtype}, not "
                f"({size},), {dtype}"
            )
