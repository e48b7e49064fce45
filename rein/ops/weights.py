"""How much each stored action counts when a policy learns from actions that it did not choose."""

from __future__ import annotations

import math

import torch
from torch import Tensor


@torch.no_grad()
def exp_advantage_weight(advantage: Tensor, temperature: float = 1.0, max_weight: float = 100.0) -> Tensor:
    """Weighs actions by how much better they were than expected.

    Peng et al. (2019), "Advantage-Weighted Regression", eq. 6; with a limit as in Kostrikov et al. (2022), "Offline
    Reinforcement Learning with Implicit Q-Learning", eq. 7, whose beta is 1 / `temperature`.

    Args:
        advantage: [...], value of the action less value of the state.
        temperature: high values weigh all actions alike, low ones only the best.
        max_weight: limit of the weights, not of the advantages.

    Returns:
        [...] `min(exp(advantage / temperature), max_weight)`; no gradient flows through them.
    """
    if temperature <= 0.0 or max_weight <= 0.0:
        raise ValueError(f"temperature and max_weight must be positive, got {temperature} and {max_weight}")
    # Limited before the exponential, which overflows; after it too, since exp(log(x)) need not be x.
    exponent = (advantage / temperature).clamp(max=math.log(max_weight))
    return exponent.exp().clamp(max=max_weight)
