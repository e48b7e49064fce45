"""Compiled loops of running statistics; imported on first use only, because numba takes long to import."""

import numpy as np
from numpy.typing import NDArray

from rein.ops.compiled_loops import compiled


@compiled
def normalize_rows(
    batch: NDArray[np.float32],
    out: NDArray[np.float32],
    mean: NDArray[np.float64],
    variance: NDArray[np.float64],
    mass: NDArray[np.float64],
    updates: NDArray[np.int64],
    rate: float,
    zero_mean: bool,
    epsilon: float,
    limit: float,
) -> None:
    """Normalizes the rows of a batch by moments that have taken it in.

    Args:
        batch: [B, N].
        out: [B, N], overwritten; it may be `batch`.
        mean: [N], changed in place.
        variance: [N], changed in place.
        mass: [1], sum of the weights of all batches, changed in place.
        updates: [1], number of batches, changed in place.
        rate: how much the batch pulls; 0 leaves the moments as they are.
        zero_mean: whether to subtract the mean.
        epsilon: added to what the root is taken of.
        limit: of the absolute results; none if it is not positive.
    """
    rows, columns = batch.shape
    weight = 0.0
    if rate > 0.0:
        mass[0] += rate * (1.0 - mass[0])
        weight = rate / mass[0]
        updates[0] += 1
    for n in range(columns):
        if weight > 0.0:
            total = 0.0
            for b in range(rows):
                total += np.float64(batch[b, n])
            average = total / rows
            squares = 0.0
            for b in range(rows):
                squares += (np.float64(batch[b, n]) - average) ** 2
            difference = average - mean[n]
            mean[n] += weight * difference
            variance[n] *= 1.0 - weight
            variance[n] += weight * (squares / rows)
            variance[n] += weight * (1.0 - weight) * difference * difference
        power = variance[n] if zero_mean else variance[n] + mean[n] * mean[n]
        scale = np.float32((power + epsilon) ** -0.5)
        shift = np.float32(mean[n]) if zero_mean else np.float32(0.0)
        for b in range(rows):
            value = (batch[b, n] - shift) * scale
            # What is no number stays so.
            if limit > 0.0 and value > limit:
                value = np.float32(limit)
            elif limit > 0.0 and value < -limit:
                value = np.float32(-limit)
            out[b, n] = value
