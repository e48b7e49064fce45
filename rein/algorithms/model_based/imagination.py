"""Plans carried out in imagination: many environments, plans and particles as the rows of one batch.

A row begins at what is observed now and follows the model of the dynamics, every replica on its own: a replica keeps its
identity along the whole plan (TSinf of Chua et al. 2018, arXiv:1805.12114, section 4.3). The reward of a step is that of
where its action led. Rewards are not discounted, nothing is added at the horizon, and nothing ends before it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.algorithms.model_based.dynamics_learning import DynamicsLearningAlgorithm
from rein.algorithms.model_based.reward_learning import RewardEstimationAlgorithm
from rein.data_structures import StepType, TimeStep
from rein.nest import Nest
from rein.networks.state import zero_state
from rein.ops import actions_by_step, mean_over_particles, spread_over_particles

_STEPS_AT_ONCE = 2**17
"""More imagined steps, of all rows and replicas, are evaluated in several parts, so that memory is bounded."""


class ImaginedStep(NamedTuple):
    """A step of all rows; n is there with several replicas only."""

    feature: Tensor
    """[rows, (n,) d] where the action led."""
    action: Tensor
    """[rows, (n,) A]."""


def imagine(dynamics: DynamicsLearningAlgorithm, feature: Tensor, actions: Tensor) -> Iterator[ImaginedStep]:
    """Takes the actions one after the other.

    Args:
        dynamics: the model.
        feature: [rows, d] where each row begins.
        actions: [H, rows, A].
    """
    rows, replicas = feature.shape[0], dynamics.num_replicas
    if replicas > 1:
        feature = feature.unsqueeze(1).expand(-1, replicas, *feature.shape[1:])
    state = zero_state(dynamics.get_state_specs(), rows, feature.device)._replace(feature=feature)
    step_type = torch.full((rows,), StepType.MID, dtype=torch.int32, device=feature.device)
    for action in actions:
        if replicas > 1:
            action = action.unsqueeze(1).expand(-1, replicas, *action.shape[1:])
        step = dynamics.predict_step(TimeStep(step_type, observation=state.feature, prev_action=action), state)
        state = step.state
        yield ImaginedStep(step.output, action)


def imagined_costs(
    dynamics: DynamicsLearningAlgorithm,
    reward: RewardEstimationAlgorithm,
    observation: Tensor,
    plans: Tensor,
    particles: int,
) -> Tensor:
    """Minus the sum of imagined rewards, averaged over particles and replicas.

    Args:
        dynamics: the model.
        reward: what rewards are.
        observation: [B, d] where the plans begin.
        plans: [B, M, H, A].
        particles: P, rows for each plan and replica.

    Returns:
        [B, M].
    """
    steps_of_plan = plans.shape[0] * plans.shape[2] * particles * dynamics.num_replicas
    part = max(1, _STEPS_AT_ONCE // steps_of_plan)
    if part >= plans.shape[1]:
        return _costs(dynamics, reward, observation, plans, particles)
    parts = torch.split(plans, part, 1)
    return torch.cat([_costs(dynamics, reward, observation, some, particles) for some in parts], 1)


def _costs(
    dynamics: DynamicsLearningAlgorithm,
    reward: RewardEstimationAlgorithm,
    observation: Tensor,
    plans: Tensor,
    particles: int,
) -> Tensor:
    batch, population = plans.shape[:2]
    feature = spread_over_particles(observation, population, particles)
    steps = imagine(dynamics, feature, actions_by_step(plans, particles))
    has_state = not nest.is_empty(reward.predict_state_spec)
    total = _reward_step_by_step(reward, steps) if has_state else _reward_at_once(reward, steps)
    return -mean_over_particles(total, batch, population)


def _reward_at_once(reward_module: RewardEstimationAlgorithm, steps: Iterator[ImaginedStep]) -> Tensor:
    """Sums [rows, (n)] of rewards, which are asked for once, for all steps."""
    features, actions = zip(*steps, strict=True)
    reward, _ = reward_module.compute_reward(torch.cat(features), torch.cat(actions), ())
    return reward.reshape(len(features), *features[0].shape[:1], *reward.shape[1:]).sum(0)


def _reward_step_by_step(reward_module: RewardEstimationAlgorithm, steps: Iterator[ImaginedStep]) -> Tensor:
    """Sums [rows, (n)] of rewards that depend on those before."""
    total: Tensor | None = None
    state: Nest = None
    for step in steps:
        if total is None:
            state = zero_state(reward_module.predict_state_spec, step.feature.shape[0], step.feature.device)
        reward, state = reward_module.compute_reward(step.feature, step.action, state)
        total = reward if total is None else total + reward
    assert total is not None
    return total


@torch.no_grad()
def imagined_trajectories(
    dynamics: DynamicsLearningAlgorithm, observation: Tensor, plan: Tensor, particles: int
) -> Tensor:
    """Where a plan leads, for every particle and replica.

    Args:
        dynamics: the model.
        observation: [B, d] where the plan begins.
        plan: [B, H, A].
        particles: P, rows for each replica.

    Returns:
        [B, P * n, H + 1, d], the first of them `observation`.
    """
    batch, size = observation.shape[0], particles * dynamics.num_replicas
    feature = spread_over_particles(observation, 1, particles)
    actions = actions_by_step(plan.unsqueeze(1), particles)
    steps = [step.feature.reshape(batch, size, -1) for step in imagine(dynamics, feature, actions)]
    start = observation.flatten(1).unsqueeze(1).expand(-1, size, -1)
    return torch.stack([start, *steps], 2)
