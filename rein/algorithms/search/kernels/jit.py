"""How the loops of this package are compiled."""

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

_njit: Any = numba.njit


def jit(function: Callable[..., Any]) -> Any:
    """`function` compiled at its first call, and kept on disk if any cache directory can be written."""
    try:
        loop = _njit(cache=True, nogil=True, error_model="numpy")(function)
        loop._cache._cache_file._source_stamp = _stamp_of_sources()
        return loop
    # Numba found no writable place for its cache, or keeps its stamp elsewhere: compile in every process instead.
    except (RuntimeError, AttributeError):
        return _njit(nogil=True, error_model="numpy")(function)


def part(function: Callable[..., Any]) -> Any:
    """`function` compiled as a part of the loops that call it, and not callable from Python."""
    return _njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


def written_in(function: Callable[..., Any]) -> Any:
    """Like `part`, written into its callers: handing over all arrays of the trees would take longer than a short body."""
    return _njit(nogil=True, error_model="numpy", inline="always")(function)


def arithmetic(function: Callable[..., Any]) -> Any:
    """Like `part`, for loops over numbers that may be summed in another order, and rounded once in place of twice."""
    flags = {"contract", "reassoc", "nsz"}
    return _njit(nogil=True, error_model="numpy", fastmath=flags, no_cpython_wrapper=True, no_cfunc_wrapper=True)(
        function
    )


@functools.cache
def _stamp_of_sources() -> str:
    """What tells whether compiled loops on disk are current: numba looks at the file of a loop only, not at what it calls."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
