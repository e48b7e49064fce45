"""What the compiled loops are built from: typed views on addresses, unaligned copies, prefetch, one jit decorator."""

# These functions are compiled, not run: numba infers their types.
# mypy: ignore-errors

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["copy_bytes", "f32", "f64", "i32", "i64", "inline", "jit", "prefetch"]


def jit(function: Callable[..., Any]) -> Any:
    """`function` compiled at its first call, and kept on disk if any cache directory can be written."""
    try:
        loop = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
        loop._cache._cache_file._source_stamp = _stamp_of_sources()
        return loop
    # Numba found no writable place for its cache, or keeps its stamp elsewhere: compile in every process instead.
    except (RuntimeError, AttributeError):
        return numba.njit(nogil=True, error_model="numpy")(function)


@functools.cache
def _stamp_of_sources() -> str:
    """What tells whether compiled loops on disk are current.

    Numba looks at the file of a loop only, and would keep one that was compiled with an older version of what it calls
    in other files; these loops write through addresses, so a stale one must never run.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def inline(function: Callable[..., Any]) -> Any:
    """`function` compiled into its callers."""
    return numba.njit(inline="always", error_model="numpy")(function)


@intrinsic
def _pointer(typingctx: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@inline
def i64(address, size):
    """The `size` int64 at `address`, as an array."""
    return numba.carray(_pointer(address), size, numba.int64)


@inline
def i32(address, size):
    """The `size` int32 at `address`, as an array."""
    return numba.carray(_pointer(address), size, numba.int32)


@inline
def f32(address, size):
    """The `size` float32 at `address`, as an array."""
    return numba.carray(_pointer(address), size, numba.float32)


@inline
def f64(address, size):
    """The `size` float64 at `address`, as an array."""
    return numba.carray(_pointer(address), size, numba.float64)


def _move(bits: int) -> Any:
    @intrinsic
    def move(typingctx: Any, target: Any, source: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = ir.IntType(bits).as_pointer()
            value = builder.load(builder.inttoptr(arguments[1], pointer), align=1)
            builder.store(value, builder.inttoptr(arguments[0], pointer), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return move


_move_32_bytes, _move_8_bytes, _move_4_bytes, _move_1_byte = map(_move, (256, 64, 32, 8))


@intrinsic
def _memcpy(typingctx: Any, target: Any, source: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bytes_ = ir.IntType(8).as_pointer()
        pointers = [builder.inttoptr(argument, bytes_) for argument in arguments[:2]]
        cgutils.raw_memcpy(builder, *pointers, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def prefetch(typingctx: Any, address: Any) -> Any:
    """Asks for the cache line at `address` without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bytes_, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [bytes_, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        read, keep, data = number(0), number(3), number(1)
        builder.call(function, [builder.inttoptr(arguments[0], bytes_), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@inline
def copy_bytes(target, source, size):
    """Copies `size` bytes; a call of memcpy costs more than the copy of a small field."""
    if size > 512:
        _memcpy(target, source, size)
    else:
        done = 0
        while done + 32 <= size:
            _move_32_bytes(target + done, source + done)
            done += 32
        while done + 8 <= size:
            _move_8_bytes(target + done, source + done)
            done += 8
        while done + 4 <= size:
            _move_4_bytes(target + done, source + done)
            done += 4
        while done < size:
            _move_1_byte(target + done, source + done)
            done += 1
