"""Rows of imagined worlds: every environment, for every plan, as many times as there are particles.

The order of the rows is environment, plan, particle.
"""

from __future__ import annotations

from torch import Tensor


def spread_over_particles(x: Tensor, population: int, particles: int) -> Tensor:
    """Repeats what each environment begins with for every plan and particle.

    Args:
        x: [B, ...].
        population: M, plans of each environment.
        particles: P, particles of each plan.

    Returns:
        [B * M * P, ...].
    """
    batch, *rest = x.shape
    expanded = x.reshape(batch, 1, *rest).expand(batch, population * particles, *rest)
    return expanded.reshape(batch * population * particles, *rest)


def actions_by_step(plans: Tensor, particles: int) -> Tensor:
    """Puts plans in the order in which rows of particles take their actions.

    Args:
        plans: [B, M, H, A].
        particles: P, particles of each plan.

    Returns:
        [H, B * M * P, A]; contiguous, so that the rows of a step lie together.
    """
    batch, population, horizon, size = plans.shape
    by_step = plans.permute(2, 0, 1, 3).unsqueeze(3).expand(horizon, batch, population, particles, size)
    return by_step.reshape(horizon, batch * population * particles, size)


def mean_over_particles(x: Tensor, batch_size: int, population: int) -> Tensor:
    """Averages what the particles of a plan got.

    Args:
        x: [B * M * P], or [B * M * P, n] where each particle is imagined by n models.
        batch_size: B.
        population: M.

    Returns:
        [B, M].
    """
    rows = x.shape[0]
    if rows == 0 or rows % (batch_size * population) != 0:
        raise ValueError(
            f"{rows} rows are not the same number of particles for each of {batch_size} x {population} plans: give a "
            "multiple"
        )
    return x.reshape(batch_size, population, -1).mean(2)
