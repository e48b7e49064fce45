"""Compiled loops behind `rein.ops`; imported on first use only, because numba takes long to import."""

from __future__ import annotations

import numpy as np

from rein.ops.compiled_loops import compiled


@compiled
def reverse_scan(increment: np.ndarray, decay: np.ndarray, out: np.ndarray) -> None:
    """Fills `out[t] = increment[t] + decay[t] * out[t + 1]` from the end, carrying doubles.

    Args:
        increment: [T, N].
        decay: [T, N].
        out: [T, N], overwritten.
    """
    steps, width = increment.shape
    carry = np.zeros(width, dtype=np.float64)
    for t in range(steps - 1, -1, -1):
        for n in range(width):
            carry[n] = increment[t, n] + decay[t, n] * carry[n]
            out[t, n] = carry[n]
