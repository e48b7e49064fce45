"""Burn-in (Kapturowski et al. 2019, "Recurrent Experience Replay in Distributed Reinforcement Learning", section 3).

Recurrent states that were stored with old parameters are brought up to date by the first steps of each sequence, from which
nothing is learnt.
"""

from typing import TYPE_CHECKING

import torch

from rein import nest
from rein.distributions import index_distributions
from rein.framework.steps import steps_in_order
from rein.networks.state import zero_state

if TYPE_CHECKING:
    from rein.framework.algorithm import Algorithm
    from rein.framework.updating.gradients import Batch


def burned_in(algorithm: "Algorithm", batch: "Batch", steps: int) -> "Batch":
    """A batch without its first steps, and with the states after them.

    Args:
        algorithm: a recurrent one; it is left as it is.
        batch: sequences [B, T, ...].
        steps: to leave out, fewer than T.
    """
    experience = batch.experience
    size, length = experience.step_type.shape[:2]
    if nest.is_empty(algorithm.train_state_spec):
        raise ValueError(f"{algorithm.name} has no recurrent state to burn in: leave out burn_in_steps={steps}")
    if steps >= length - 1:
        raise ValueError(f"burn_in_steps is {steps} of sequences of {length}: leave at least 2 steps to learn from")
    state = zero_state(algorithm.train_state_spec, size)
    if not nest.is_empty(experience.state):
        first = nest.index_nest(experience.state, (slice(None), 0))
        state = nest.prune_nest_like(first, algorithm.train_state_spec, ())
    both = (experience.time_step, experience.rollout_info)
    time_step, info = index_distributions(both, (slice(None), slice(0, steps)))
    with torch.no_grad():
        state = steps_in_order(algorithm.train_step, time_step, state, info).state
    time_step, info = index_distributions(both, (slice(None), slice(steps, None)))
    state = nest.map_structure(lambda tensor: tensor.unsqueeze(1), state)
    return batch._replace(experience=experience._replace(time_step=time_step, rollout_info=info, state=state))
