"""Compiling kernels with numba, once for each kind of processor: the result is kept on the disk.

numba keeps it beside the source, or, where that is read-only, in the user's cache folder;
NUMBA_CACHE_DIR names another place. If there is none, each process compiles for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

Function = TypeVar("Function", bound="Callable[..., Any]")
_njit: Any = numba.njit
_READ_AND_WRITE, _KEEP, _DATA = 1, 3, 1


def compiled(function: Function) -> Function:
    """Compile at the first call; it runs without Python's lock.

    Nothing is reordered: float sums are in the order written.
    """
    options = {"nogil": True, "error_model": "numpy"}
    try:
        made: Function = _njit(cache=True, **options)(function)
    except RuntimeError:  # no folder to keep it in can be written
        made = _njit(**options)(function)
    return made


def inlined(function: Function) -> Function:
    """Make a part of kernels: it is compiled into each that calls it."""
    made: Function = _njit(nogil=True, inline="always", error_model="numpy")(function)
    return made


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001 - numba's form
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.gep(made.data, [arguments[1]])
        pointer = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        declare: Any = cgutils.get_or_insert_function
        function = declare(builder.module, kind, "llvm.prefetch.p0")
        hints = [ir.Constant(number, one) for one in (_READ_AND_WRITE, _KEEP, _DATA)]
        builder.call(function, [pointer, *hints])
        return context.get_dummy_value()

    return numba.void(array, numba.int64), generate


prefetch: Any = intrinsic(_prefetch)
"""prefetch(array, index): ask for a cache line, to be written too, without waiting for it.

Rows of a large table lie anywhere in memory: asked for some rows ahead, most of the waiting is
saved (LLVM's language reference, llvm.prefetch).
"""


def _float_of_bits(typing_context: Any, bits: Any) -> Any:  # noqa: ARG001 - numba's form
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(arguments[0], ir.FloatType())

    return numba.float32(numba.uint32), generate


def _bits_of_float(typing_context: Any, value: Any) -> Any:  # noqa: ARG001 - numba's form
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(arguments[0], ir.IntType(32))

    return numba.uint32(numba.float32), generate


def _scattered(typing_context: Any, number: Any, place: Any) -> Any:  # noqa: ARG001 - numba's form
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        def constant(value: int) -> Any:
            return ir.Constant(ir.IntType(32), value)

        mixed, place = arguments
        mixed = builder.add(mixed, builder.mul(place, constant(0x9E3779B9)))
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            mixed = builder.xor(mixed, builder.lshr(mixed, constant(shift)))
            mixed = builder.mul(mixed, constant(factor))
        return builder.xor(mixed, builder.lshr(mixed, constant(16)))

    return numba.uint32(numba.uint32, numba.uint32), generate


float_of_bits: Any = intrinsic(_float_of_bits)
"""float_of_bits(bits): the float32 that these 32 bits, uint32, are."""

bits_of_float: Any = intrinsic(_bits_of_float)
"""bits_of_float(value): the 32 bits, uint32, of a float32."""

scattered: Any = intrinsic(_scattered)
"""scattered(number, place): 32 bits, uint32, that look random, for each place another's.

Wellons' lowbias32, https://nullprogram.com/blog/2018/07/31/, of number + place * (2^32 over the
golden ratio). Written in numba's Python, its numbers would be of 64 bits, and twice as slow.
"""
