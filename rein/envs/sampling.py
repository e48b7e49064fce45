"""Random elements of Gymnasium spaces, drawn with a generator of one's own."""

from typing import Any

import numpy as np
from gymnasium import spaces

# Unbounded dimensions are sampled between minus and plus this.
_FLOAT_BOUND = 5.0


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
        low = np.maximum(space.low.astype(np.float64), -_FLOAT_BOUND)
        high = np.minimum(space.high.astype(np.float64), _FLOAT_BOUND)
        if np.issubdtype(space.dtype, np.floating):
            return np.clip(rng.uniform(low, high), low, high).astype(space.dtype)
        return rng.integers(space.low.astype(np.int64), space.high.astype(np.int64) + 1, space.shape).astype(
            space.dtype
        )
    raise TypeError(f"Cannot sample from {space}: spaces of type {type(space).__name__}.")
