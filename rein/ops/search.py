"""Policies of tree search: regularised by a prior, by visit counts, with noise at the root; and repeatable random numbers.

Grill et al. (2020), "Monte-Carlo tree search as regularized policy optimization" (arXiv:2007.12509), with q the prior, v the
values and c the strength of the regularisation:

    reverse KL:  p = argmax_p E_p(v) - c KL(q || p),    p_i = q_i / (beta - u_i),   u_i = (v_i - max v) / c
    forward KL:  p = argmax_p E_p(v) - c KL(p || q),    p_i = q_i exp(v_i / c) / Z
"""

from __future__ import annotations

import torch
from torch import Tensor

MAX_NEWTON_STEPS = 100
_MASK = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9


def calculate_exploration_policy(value: Tensor, prior: Tensor, c: Tensor, tol: float = 1e-6) -> tuple[Tensor, int]:
    """Solves for the policy that trades value against the reverse divergence from the prior.

    beta is found by Newton's method from max(q + u), where the sum of p is at least 1; that sum is convex in beta, so
    the steps never overshoot. Computed in double precision, whatever the inputs are.

    Args:
        value: [N, K].
        prior: [N, K], not negative, each row with a sum of 1; choices of 0 get 0.
        c: [N, 1], positive.
        tol: how far a row's sum may be from 1.

    Returns:
        The policy, [N, K], and the number of Newton steps.

    Raises:
        ValueError: if some rows have not converged, as with NaN among the values.
    """
    allowed = prior > 0
    floor = torch.finfo(torch.float64).min
    q, strength = prior.double(), c.double()
    v = value.double().masked_fill(~allowed, floor)
    u = ((v - v.amax(-1, keepdim=True)) / strength).masked_fill(~allowed, 0.0)
    beta = (q + u).masked_fill(~allowed, floor).amax(-1, keepdim=True)
    for step in range(MAX_NEWTON_STEPS + 1):
        p = (q / (beta - u)).masked_fill(~allowed, 0.0)
        excess = p.sum(-1, keepdim=True) - 1.0
        if bool((excess.abs() <= tol).all()):
            return p.to(value.dtype), step
        if step < MAX_NEWTON_STEPS:
            slope = (p / (beta - u)).masked_fill(~allowed, 0.0).sum(-1, keepdim=True)
            beta = beta + excess / slope
    rows = (~(excess.squeeze(-1).abs() <= tol)).nonzero().flatten().tolist()
    shown = rows[0]
    raise ValueError(
        f"the exploration policy of rows {rows[:10]} did not converge in {MAX_NEWTON_STEPS} steps; row {shown} has value "
        f"{value[shown].tolist()}, prior {prior[shown].tolist()}, c {c[shown].tolist()}: check the model's outputs"
    )


def calculate_kl_exploration_policy(value: Tensor, prior: Tensor, c: Tensor) -> tuple[Tensor, int]:
    """Solves for the policy that trades value against the forward divergence from the prior.

    Args:
        value: [N, K].
        prior: [N, K], not negative; choices of 0 get 0.
        c: [N, 1], positive.

    Returns:
        The policy, [N, K], and 0, as there is nothing to iterate.
    """
    v = value.masked_fill(prior <= 0, torch.finfo(value.dtype).min)
    weight = prior * ((v - v.amax(-1, keepdim=True)) / c).exp()
    return weight / weight.sum(-1, keepdim=True), 0


def sharpen(weight: Tensor, temperature: Tensor | float) -> Tensor:
    """Makes a policy proportional to `weight ** (1 / temperature)`.

    Args:
        weight: [B, K], not negative; such as visit counts.
        temperature: positive, [B] or one for all.

    Returns:
        [B, K] probabilities; rows of zeros stay zeros.
    """
    if isinstance(temperature, float) and temperature == 1.0:
        total = weight.sum(-1, keepdim=True)
        return weight / total.where(total > 0, 1.0)
    exponent = 1.0 / torch.as_tensor(temperature, dtype=weight.dtype, device=weight.device)
    log_weight = weight.log() * (exponent.unsqueeze(-1) if exponent.ndim else exponent)
    largest = log_weight.amax(-1, keepdim=True)
    power = (log_weight - largest).exp().where(weight > 0, 0.0)
    return power / power.sum(-1, keepdim=True).clamp_min(1.0)


def mask_prior(prior: Tensor, mask: Tensor, floor: float = 1e-20) -> Tensor:
    """Restricts a prior to the legal choices.

    Args:
        prior: [B, K].
        mask: [B, K] bool, at least one per row.
        floor: probability that a legal choice keeps at least, so that one whose probability vanished stays legal.

    Returns:
        [B, K], 0 exactly where `mask` is False, each row with a sum of 1.
    """
    masked = prior.clamp_min(floor).masked_fill(~mask, 0.0)
    return masked / masked.sum(-1, keepdim=True)


def mix_noise(prior: Tensor, noise: Tensor, fraction: float) -> Tensor:
    """Mixes noise into a prior, `fraction * noise + (1 - fraction) * prior`, over the choices that the prior allows.

    Args:
        prior: [B, K], each row with a sum of 1.
        noise: [B, K], not negative, such as a draw of a Dirichlet distribution; it is restricted to where the prior is
            positive and scaled to a sum of 1.
        fraction: share of the noise.

    Returns:
        [B, K], each row with a sum of 1; a row whose noise vanished keeps its prior.
    """
    noise = noise.masked_fill(prior <= 0, 0.0)
    total = noise.sum(-1, keepdim=True)
    mixed = fraction * noise / total.where(total > 0, 1.0) + (1.0 - fraction) * prior
    return mixed.where(total > 0, prior)


def hashed_uniform(seed: Tensor | int, *coordinates: Tensor | int) -> Tensor:
    """Gives a uniform number for each tuple of integers, the same one every time.

    Searches on different backends draw the same numbers from it, in whatever order they need them.

    Args:
        seed: int64, the low 32 bits count.
        *coordinates: int64 tensors that broadcast with each other, or integers; the low 32 bits count.

    Returns:
        float64 in [0, 1) of the broadcast shape.
    """
    state = _scramble(torch.as_tensor(seed, dtype=torch.int64) & _MASK)
    for coordinate in coordinates:
        state = _scramble((state + torch.as_tensor(coordinate) * _GOLDEN) & _MASK)
    return state.to(torch.float64) / 2.0**32


def _scramble(x: Tensor) -> Tensor:
    """Wellons' 32-bit hash "lowbias32", on the low half of int64."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _MASK
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _MASK
    return x ^ (x >> 16)


def halving_visits(num_considered: int, num_simulations: int) -> list[int]:
    """Gives for each simulation how many visits the root action that it tries has had, under sequential halving.

    Karnin et al. (2013); Danihelka et al. (2022), "Policy improvement by planning with Gumbel", algorithm 2: the
    simulations are shared equally among ceil(log2(m)) phases, and after each phase the better half of the actions stays,
    until two are left.

    Args:
        num_considered: m, actions at the start, at least 1.
        num_simulations: length of the result.
    """
    if num_considered <= 1:
        return list(range(num_simulations))
    phases = (num_considered - 1).bit_length()
    visits: list[int] = []
    remaining, visited = num_considered, 0
    while len(visits) < num_simulations:
        for _ in range(max(1, num_simulations // (phases * remaining))):
            visits += [visited] * remaining
            visited += 1
        remaining = max(2, remaining // 2)
    return visits[:num_simulations]
