"""How an action is drawn from the probabilities that a search gives to its candidates.

All are called as `sampler(probs, state)` with [B, K] probabilities, which need not sum to 1, and return int64 [B] and the new
state.
"""

from typing import Any

import torch
from torch import Tensor

from rein.config import configurable
from rein.nest import Nest
from rein.specs import TensorSpec


class ActionSampler:
    """Base of samplers; without state."""

    state_spec: Nest = ()

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {}

    def __call__(self, probs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Chooses.

        Args:
            probs: [B, K], not negative, with a positive sum.
            state: matching `state_spec`.

        Returns:
            int64 [B] and the new state.
        """
        raise NotImplementedError


@configurable
class MultinomialSampler(ActionSampler):
    """Draws in proportion to the probabilities."""

    def __repr__(self) -> str:
        return "MultinomialSampler()"

    def __call__(self, probs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """See `ActionSampler`."""
        return torch.multinomial(probs, 1).squeeze(-1), state


@configurable
class EpsilonGreedySampler(ActionSampler):
    """Takes the most probable choice, or at times draws in proportion to the probabilities."""

    def __init__(self, epsilon_greedy: float = 0.1) -> None:
        """Makes the sampler.

        Args:
            epsilon_greedy: chance of a draw.
        """
        if not 0.0 <= epsilon_greedy <= 1.0:
            raise ValueError(f"epsilon_greedy is {epsilon_greedy}: it must be in [0, 1]")
        self._epsilon = epsilon_greedy

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"epsilon_greedy": self._epsilon}

    def __call__(self, probs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """See `ActionSampler`."""
        best = probs.argmax(-1)
        if self._epsilon == 0.0:
            return best, state
        drawn = torch.multinomial(probs, 1).squeeze(-1)
        draws = torch.rand(best.shape, device=best.device) < self._epsilon
        return torch.where(draws, drawn, best), state


@configurable
class CategoricalSeedSampler(ActionSampler):
    """Draws from probabilities that are disturbed alike for a while, so that exploration is consistent over time.

    The disturbed probabilities are a draw of Dirichlet(concentration * probs), made from uniform noise that is kept from step
    to step: they are Gamma quantiles at the noise, normalised.
    """

    def __init__(self, num_classes: int, new_noise_prob: float = 0.01, concentration: float = 1) -> None:
        """Makes the sampler.

        Args:
            num_classes: K, the number of candidates of the search.
            new_noise_prob: chance per step that the noise of a row is drawn anew; it is at the start of an episode.
            concentration: the larger, the smaller the disturbance.
        """
        if concentration <= 0:
            raise ValueError(f"concentration is {concentration}: it must be positive")
        if not 0.0 <= new_noise_prob <= 1.0:
            raise ValueError(f"new_noise_prob is {new_noise_prob}: it must be in [0, 1]")
        self._num_classes = num_classes
        self._new_noise_prob = new_noise_prob
        self._concentration = concentration
        self.state_spec = TensorSpec((num_classes,))

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {
            "num_classes": self._num_classes,
            "new_noise_prob": self._new_noise_prob,
            "concentration": self._concentration,
        }

    def __call__(self, probs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """See `ActionSampler`; `state` is the noise, [B, K], zeros at the start of an episode."""
        if probs.shape[-1] != self._num_classes:
            raise ValueError(
                f"CategoricalSeedSampler was made for {self._num_classes} choices, but the search has "
                f"{probs.shape[-1]}: set num_classes={probs.shape[-1]}"
            )
        noise = self._next_noise(probs, state)
        return torch.multinomial(self.disturbed(probs, noise), 1).squeeze(-1), noise

    def _next_noise(self, probs: Tensor, state: Nest) -> Tensor:
        tiny = torch.finfo(torch.float32).tiny
        fresh = torch.rand(probs.shape, device=probs.device).clamp_min(tiny)
        if not isinstance(state, Tensor):
            return fresh
        renew = torch.rand(probs.shape[:1], device=probs.device) < self._new_noise_prob
        renew = renew | (state == 0).all(-1)
        return torch.where(renew.unsqueeze(-1), fresh, state)

    def disturbed(self, probs: Tensor, noise: Tensor) -> Tensor:
        """The disturbed probabilities, [B, K]; what has none keeps none.

        Args:
            probs: [B, K].
            noise: [B, K] in (0, 1).
        """
        p = probs.double() / probs.double().sum(-1, keepdim=True)
        log_gamma = log_gamma_quantile(self._concentration * p, noise.double())
        return log_gamma.masked_fill(probs <= 0, -torch.inf).softmax(-1).to(probs.dtype)


def log_gamma_quantile(shape: Tensor, level: Tensor) -> Tensor:
    """Logarithms of quantiles of Gamma distributions with scale 1.

    As a logarithm, because with a small shape most quantiles are too small to be written as numbers.

    Args:
        shape: [...] float64, not negative; the result for 0 has no meaning.
        level: [...] float64 in (0, 1).
    """
    a = shape.clamp_min(1e-300)
    # F(x) <= x^a / Gamma(a + 1), and is equal to it where x is small.
    lower = (level.log() + torch.lgamma(a + 1)) / a
    low, high = lower.clamp(-40.0, None), (a + 10 * a.sqrt() + 40.0).log()
    low = torch.minimum(low, high)
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = torch.special.gammainc(a, middle.exp()) < level
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return torch.where(lower < -30.0, lower, high)
