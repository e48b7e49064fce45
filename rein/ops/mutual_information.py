"""Bounds on mutual information from a critic T(x, y); see the paper of each for the bound.

P is the joint distribution of x and y, Q the product of their marginals. Every function takes T of pairs of P and of Q,
both [B], and returns what an optimizer minimizes and what estimates the information, both [B].
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

_MAX_LOG_RATIO = 20.0


def clipped_ratio(critic: Tensor) -> Tensor:
    """exp(T), with T limited so that single pairs do not overflow.

    Args:
        critic: [B].

    Returns:
        [B], at most exp(20).
    """
    return critic.clamp(max=_MAX_LOG_RATIO).exp()


def donsker_varadhan(joint: Tensor, marginal_ratio: Tensor, average_ratio: Tensor) -> tuple[Tensor, Tensor]:
    """E_P T - log E_Q exp T, a lower bound of the mutual information.

    Belghazi et al. (2018), "Mutual Information Neural Estimation". The gradient of the logarithm over a batch is biased;
    a moving average in the place of the mean of the batch reduces the bias (section 3.2 there).

    Args:
        joint: [B], T of pairs of P.
        marginal_ratio: [B], exp(T) of pairs of Q.
        average_ratio: [] moving average of its mean; a constant.

    Returns:
        [B] losses, and [B] terms whose mean is the bound.
    """
    loss = marginal_ratio / average_ratio.detach() - joint
    mean = marginal_ratio.mean()
    return loss, joint - (mean.log() + marginal_ratio / mean - 1.0)


def kullback_leibler(joint: Tensor, marginal_ratio: Tensor) -> tuple[Tensor, Tensor]:
    """E_P T - E_Q exp T + 1, a lower bound of the mutual information.

    Nguyen et al. (2010), "Estimating divergence functionals and the likelihood ratio by convex risk minimization".

    Args:
        joint: [B], T of pairs of P.
        marginal_ratio: [B], exp(T) of pairs of Q.

    Returns:
        [B] losses, and [B] terms whose mean is the bound.
    """
    bound = joint - marginal_ratio + 1.0
    return -bound, bound


def jensen_shannon(joint: Tensor, marginal: Tensor) -> tuple[Tensor, Tensor]:
    """-E_P softplus(-T) - E_Q softplus(T) + log 4, a lower bound of twice the Jensen-Shannon divergence of P and Q.

    Hjelm et al. (2019), "Learning deep representations by mutual information estimation and maximization", eq. 4.

    Args:
        joint: [B], T of pairs of P.
        marginal: [B], T of pairs of Q.

    Returns:
        [B] losses, and [B] terms whose mean is the bound.
    """
    bound = math.log(4.0) - F.softplus(-joint) - F.softplus(marginal)
    return -bound, bound


@torch.no_grad()
def gaussian_mutual_information(correlation: Tensor) -> Tensor:
    """The mutual information of jointly normal pairs, in nats.

    Args:
        correlation: [D], between x_d and y_d, which are independent of the other dimensions.

    Returns:
        [] nats.
    """
    return -0.5 * torch.log1p(-correlation.square()).sum()
