"""What the numbers of returns may be."""

from collections.abc import Sequence

import torch
from torch import Tensor


def discount_factors(gamma: float | Sequence[float], owner: str) -> Tensor:
    """`gamma` as a scalar, or [D] for several rewards.

    Args:
        gamma: discount factor(s).
        owner: whose, for the message.

    Raises:
        ValueError: one is not in [0, 1].
    """
    factors = torch.tensor(gamma)
    if not bool(((factors >= 0) & (factors <= 1)).all()):
        raise ValueError(f"{owner}.gamma is {gamma}: a discount factor is in [0, 1]")
    return factors


def trace_decay(td_lambda: float, owner: str) -> float:
    """`td_lambda`, which is in [0, 1].

    Args:
        td_lambda: lambda of TD(lambda) or of generalized advantage estimation.
        owner: whose, for the message.

    Raises:
        ValueError: it is not.
    """
    if not 0.0 <= td_lambda <= 1.0:
        raise ValueError(
            f"{owner}.td_lambda is {td_lambda}: it is in [0, 1], 0 for one step and 1 for the whole return"
        )
    return td_lambda
