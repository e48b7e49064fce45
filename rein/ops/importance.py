"""Importance ratios between two policies, and the weights of non-uniform sampling."""

from __future__ import annotations

import torch
from torch import Tensor

from rein.data_structures import StepType


def importance_ratio(log_prob: Tensor, behaviour_log_prob: Tensor, log_prob_clipping: float = 0.0) -> Tensor:
    """Gives the probability of an action under the current policy over that under the one which took it.

    Args:
        log_prob: [...], under the current policy; gradients flow here.
        behaviour_log_prob: [...], under the policy that acted; no gradient flows here.
        log_prob_clipping: if > 0, both log probabilities are limited to this magnitude first, against overflow.

    Returns:
        [...] ratios.
    """
    behaviour_log_prob = behaviour_log_prob.detach()
    if log_prob_clipping > 0.0:
        log_prob = log_prob.clamp(-log_prob_clipping, log_prob_clipping)
        behaviour_log_prob = behaviour_log_prob.clamp(-log_prob_clipping, log_prob_clipping)
    return (log_prob - behaviour_log_prob).exp()


def clipped_surrogate(ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Gives the pessimistic policy-gradient objective, to be maximized.

    Schulman et al. (2017), "Proximal Policy Optimization Algorithms", eq. 7.

    Args:
        ratio: [...], importance ratios.
        advantage: [...].
        clip: how far the ratio may move from one before it stops paying.

    Returns:
        [...] objectives.
    """
    return torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """Estimates KL(behaviour | current) per action taken by the behaviour policy; never negative.

    Schulman (2020), "Approximating KL Divergence", estimator k3.

    Args:
        log_ratio: [...], log of current over behaviour probability.

    Returns:
        [...] estimates; their mean is unbiased.
    """
    return log_ratio.expm1() - log_ratio


def self_normalized_weights(log_weight: Tensor, dim: int = -1) -> Tensor:
    """Turns log importance weights into weights that sum to one.

    Args:
        log_weight: [...], up to an additive constant.
        dim: the dimension of the samples.

    Returns:
        [...] weights.
    """
    return log_weight.softmax(dim=dim)


def effective_sample_size(log_weight: Tensor, dim: int = -1) -> Tensor:
    """Gives how many equally weighted samples a weighted set is worth.

    Kong (1992), "A Note on Importance Sampling Using Standardized Weights".

    Args:
        log_weight: [..., N], up to an additive constant.
        dim: the dimension of the samples.

    Returns:
        [...] sizes between 1 and N.
    """
    log_weight = log_weight.double()
    log_size = 2 * log_weight.logsumexp(dim=dim) - (2 * log_weight).logsumexp(dim=dim)
    return log_size.exp().to(torch.get_default_dtype())


def prioritized_replay_weights(probability: Tensor, size: int | Tensor, beta: float) -> Tensor:
    """Gives the weights that undo prioritized sampling, scaled so that the largest in the batch is one.

    Schaul et al. (2016), "Prioritized Experience Replay", section 3.4.

    Args:
        probability: [B], with which each entry was drawn.
        size: number of entries in the buffer.
        beta: 0 corrects nothing, 1 fully.

    Returns:
        [B] weights in (0, 1].
    """
    log_weight = -beta * (probability.log() + torch.as_tensor(size).log().to(probability))
    return (log_weight - log_weight.max()).exp()


@torch.no_grad()
def sequence_priority(loss: Tensor, step_type: Tensor) -> Tensor:
    """Gives sequences priorities by how wrong they are.

    Args:
        loss: [T, B], not negative.
        step_type: [T, B]; LAST steps do not count.

    Returns:
        [B] the root of the mean loss over the steps that count; no gradient flows through it.
    """
    valid = (step_type != StepType.LAST).to(loss.dtype)
    return ((loss * valid).sum(0) / valid.sum(0).clamp_min(1.0)).clamp_min(0.0).sqrt()
