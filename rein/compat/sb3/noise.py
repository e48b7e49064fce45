"""Noise on actions, as a model is told to use it; what acts is our algorithms' own noise of the same kind."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray


class ActionNoise:
    """Noise that is added to actions scaled to [-1, 1]."""

    def reset(self) -> None:
        """Begins anew, as at the end of an episode."""

    def __call__(self) -> NDArray[Any]:
        """One draw."""
        raise NotImplementedError


class NormalActionNoise(ActionNoise):
    """Independent normal noise."""

    def __init__(self, mean: ArrayLike, sigma: ArrayLike, dtype: DTypeLike = np.float32) -> None:
        """Keeps the numbers.

        Args:
            mean: of each dimension of the action.
            sigma: standard deviation of each.
            dtype: of the draws.
        """
        self.mean, self.sigma, self.dtype = np.asarray(mean), np.asarray(sigma), dtype

    def __call__(self) -> NDArray[Any]:
        """One draw."""
        return np.random.normal(self.mean, self.sigma).astype(self.dtype)

    def __repr__(self) -> str:
        return f"NormalActionNoise(mean={self.mean.tolist()}, sigma={self.sigma.tolist()})"


class OrnsteinUhlenbeckActionNoise(ActionNoise):
    """Noise that returns to its mean slowly (Uhlenbeck & Ornstein 1930)."""

    def __init__(
        self,
        mean: ArrayLike,
        sigma: ArrayLike,
        theta: float = 0.15,
        dt: float = 1e-2,
        initial_noise: ArrayLike | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        """Keeps the numbers.

        Args:
            mean: of each dimension of the action.
            sigma: scale of each.
            theta: how fast it returns, per unit of time.
            dt: time between steps.
            initial_noise: where it begins; None is 0.
            dtype: of the draws.
        """
        self.mean, self.sigma, self.theta, self.dt = np.asarray(mean), np.asarray(sigma), theta, dt
        self.initial_noise, self.dtype = initial_noise, dtype
        self.reset()

    def reset(self) -> None:
        """Goes back to where it began."""
        self._last = np.zeros_like(self.mean) if self.initial_noise is None else np.asarray(self.initial_noise)

    def __call__(self) -> NDArray[Any]:
        """One draw."""
        drift = self.theta * (self.mean - self._last) * self.dt
        self._last = self._last + drift + self.sigma * np.sqrt(self.dt) * np.random.normal(size=self.mean.shape)
        return self._last.astype(self.dtype)
