"""Random elements of Gymnasium spaces, drawn with a generator of one's own."""

from typing import Any

import numpy as np
from gymnasium import spaces

# Dimensions without bounds are sampled between minus and plus this; with one bound, twice this away from it.
_SPREAD = 5.0
# Larger bounds mean that there is none.
_LARGEST = 1e6


def sample_space(space: spaces.Space[Any], rng: np.random.Generator) -> Any:
    """Returns an element of the space drawn only with `rng`, leaving the space's own generator alone."""
    if isinstance(space, spaces.Dict):
        return {name: sample_space(child, rng) for name, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(sample_space(child, rng) for child in space.spaces)
    if isinstance(space, spaces.Discrete):
        return space.start + space.dtype.type(rng.integers(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return (space.start + rng.integers(space.nvec)).astype(space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return rng.integers(0, 2, space.shape).astype(space.dtype)
    if isinstance(space, spaces.Box):
        return _sample_box(space, rng)
    raise TypeError(f"Cannot sample from {space}: spaces of type {type(space).__name__}.")


def _sample_box(space: spaces.Box, rng: np.random.Generator) -> Any:
    if not np.issubdtype(space.dtype, np.floating):
        first, last = space.low.astype(np.int64), space.high.astype(np.int64)
        return np.asarray(rng.integers(first, last + 1), space.dtype)
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    open_below, open_above = low < -_LARGEST, high > _LARGEST
    low = np.where(open_below, np.where(open_above, -_SPREAD, high - 2 * _SPREAD), low)
    high = np.where(open_above, low + 2 * _SPREAD, high)
    # Rounding to float32 may step over a bound.
    return np.asarray(np.clip(np.asarray(rng.uniform(low, high), space.dtype), space.low, space.high))
