"""SAC and its relatives find the best action of a one-step world with a known optimum, in seconds.

The observation s is uniform in [-1, 1]. The best continuous action is s / 2, the best discrete one 1 where s > 0, else 0.
"""

from functools import partial
from typing import Any

import pytest
import torch

from rein import nest
from rein.algorithms.losses import OneStepTDQRLoss
from rein.algorithms.off_policy import OacAlgorithm, QrsacAlgorithm, SacAlgorithm, TaacAlgorithm
from rein.algorithms.off_policy.sac_structures import SacInfo
from rein.algorithms.off_policy.taac_structures import TaacInfo
from rein.algorithms.off_policy.taac_trajectories import Tau
from rein.data_structures import Experience, StepType, TimeStep, restart
from rein.framework import Batch, TrainerConfig
from rein.networks import ActorDistributionNetwork, CriticNetwork, NestConcat, NormalProjectionNetwork, QNetwork
from rein.networks.state import zero_state
from rein.optimizers import Adam
from rein.specs import BoundedTensorSpec, TensorSpec

CONTINUOUS = BoundedTensorSpec((1,), torch.float32, -1.0, 1.0)
DISCRETE = BoundedTensorSpec((), torch.int64, 0, 1)
PROJECTION = partial(NormalProjectionNetwork, state_dependent_std=True, scale_distribution=True, squash_mean=False)


def make(cls: Any, action_spec: Any, **changes: Any) -> Any:
    torch.manual_seed(0)
    q = partial(QNetwork, fc_layer_params=(32, 32))
    arguments: dict[str, Any] = {
        "actor_network_cls": partial(
            ActorDistributionNetwork, fc_layer_params=(32,), continuous_projection_net_ctor=PROJECTION
        ),
        "critic_network_cls": partial(CriticNetwork, joint_fc_layer_params=(32, 32)),
        "actor_optimizer": Adam(lr=1e-2),
        "critic_optimizer": Adam(lr=1e-2),
        "alpha_optimizer": Adam(lr=2e-2),
        "config": TrainerConfig(root_dir="", mini_batch_length=2, whole_replay_buffer_training=False),
    }
    if cls is SacAlgorithm:
        arguments["q_network_cls"] = (
            partial(q, preprocessing_combiner=NestConcat()) if isinstance(action_spec, tuple) else q
        )
    return cls(observation_spec=TensorSpec((1,)), action_spec=action_spec, **{**arguments, **changes})


def reward(observation: Any, action: Any) -> Any:
    """[B], from the action or the pair of actions."""
    total = torch.zeros(observation.shape[0])
    for part in action if isinstance(action, tuple) else (action,):
        if part.dtype == torch.int64:
            total += (part == (observation[:, 0] > 0)).float()
        else:
            total -= (part - 0.5 * observation).square().sum(-1)
    return total


def sequences(action_spec: Any, with_courses: bool, size: int = 128) -> Experience:
    """Random actions in episodes of one step, [size, 2]."""
    observation = 2.0 * torch.rand(size, 1) - 1.0
    action = nest.map_structure(lambda spec: spec.sample((size, 2)), action_spec)
    taken = nest.map_structure(lambda x: x[:, 0], action)
    time_step = TimeStep(
        step_type=torch.tensor([StepType.FIRST, StepType.LAST], dtype=torch.int32).expand(size, 2),
        reward=torch.stack([torch.zeros(size), reward(observation, taken)], 1),
        discount=torch.tensor([1.0, 0.0]).expand(size, 2),
        observation=observation.unsqueeze(1).expand(-1, 2, -1),
        prev_action=action,
        env_id=torch.zeros(size, 2, dtype=torch.int64),
    )
    info: Any = SacInfo(action=action)
    if with_courses:
        info = TaacInfo(tau=Tau(action), prev_tau=Tau(torch.zeros_like(action)), rollout_b=torch.ones(size, 2).long())
    return Experience(time_step=time_step, rollout_info=info)


@pytest.mark.learning
@pytest.mark.parametrize(
    ("cls", "action_spec", "changes"),
    [
        (SacAlgorithm, CONTINUOUS, {}),
        (SacAlgorithm, CONTINUOUS, {"one_transition": True}),
        (SacAlgorithm, DISCRETE, {}),
        (SacAlgorithm, (DISCRETE, CONTINUOUS), {}),
        (SacAlgorithm, (DISCRETE, CONTINUOUS), {"one_transition": True}),
        (QrsacAlgorithm, CONTINUOUS, {"critic_loss_ctor": partial(OneStepTDQRLoss, num_quantiles=10)}),
        (OacAlgorithm, CONTINUOUS, {}),
        (TaacAlgorithm, CONTINUOUS, {}),
    ],
    ids=["continuous", "one transition", "discrete", "mixed", "mixed one transition", "qrsac", "oac", "taac"],
)
def test_the_best_action_is_found(cls: Any, action_spec: Any, changes: dict[str, Any]) -> None:
    algorithm = make(cls, action_spec, **changes)
    for _ in range(250):
        algorithm.learning.update([Batch(sequences(action_spec, cls is TaacAlgorithm))])
    observation = torch.linspace(-1.0, 1.0, 20).unsqueeze(-1)
    time_step = restart(observation, action_spec)
    action = algorithm.predict_step(time_step, zero_state(algorithm.predict_state_spec, 20)).output
    best = 0.0 if action_spec is CONTINUOUS else 1.0
    assert reward(observation, action).mean().item() > best - 0.06
