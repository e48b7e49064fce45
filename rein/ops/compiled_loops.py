"""Loops over the elements of arrays, compiled by numba; imported on first use only, because numba takes long to import."""

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Any:
    """Compiles `function` when it is first called, and keeps the result on disk where there is a place for it."""
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # Neither the package's directory nor the user's cache can be written.
        return numba.njit(nogil=True, error_model="numpy")(function)
