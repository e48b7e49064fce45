"""A stochastic ensemble knows how sure it can be, five steps ahead, in a world whose noise is known."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from rein.algorithms.model_based import (
    DynamicsState,
    FixedRewardFunction,
    MbrlAlgorithm,
    RandomShootingAlgorithm,
    StochasticDynamicsAlgorithm,
)
from rein.data_structures import TimeStep
from rein.networks import DynamicsNetwork, NormalProjectionNetwork
from rein.ops import clipped_exp
from rein.optimizers import Adam
from rein.specs import BoundedTensorSpec, TensorSpec

ACTION = BoundedTensorSpec((1,), torch.float32, -1, 1)
STEPS, DATA, UPDATES = 5, 4000, 1200


def world(feature: Tensor, action: Tensor) -> Tensor:
    """A damped swing under a force, whose noise grows with its distance from the middle."""
    position, speed = feature.unbind(-1)
    push = action[..., 0] - torch.sin(position) - 0.2 * speed
    drift = torch.stack([0.2 * speed, 0.2 * push], -1)
    deviation = 0.03 + 0.05 * position.abs().clamp(max=2.0).unsqueeze(-1)
    return feature + drift + deviation * torch.randn_like(feature)


def model() -> MbrlAlgorithm:
    projection = partial(NormalProjectionNetwork, std_transform=clipped_exp)
    network = partial(
        DynamicsNetwork,
        joint_fc_layer_params=(32, 32),
        prob=True,
        continuous_projection_net_ctor=projection,
        activation=F.silu,
    )
    dynamics = partial(StochasticDynamicsAlgorithm, num_replicas=5, dynamics_network_ctor=network)
    return MbrlAlgorithm(
        TensorSpec((2,)),
        ACTION,
        FixedRewardFunction(lambda observation, action: observation[..., 0]),
        partial(RandomShootingAlgorithm, population_size=2),
        dynamics_module_ctor=dynamics,
        particles_per_replica=40,
        dynamics_optimizer=Adam(lr=3e-3),
    )


def starts(number: int) -> Tensor:
    return torch.randn(number, 2)


def learn(algorithm: MbrlAlgorithm) -> None:
    dynamics = algorithm._dynamics_module
    assert dynamics is not None
    before, action = starts(DATA), 2 * torch.rand(DATA, 1) - 1
    after = world(before, action)
    for _ in range(UPDATES):
        rows = torch.randint(DATA, (256,))
        step = TimeStep(torch.ones(256, dtype=torch.int32), observation=after[rows], prev_action=action[rows])
        info = dynamics.train_step(step, DynamicsState(before[rows])).info
        algorithm.update_with_gradient(dynamics.calc_loss(info))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_intervals_of_95_percent_hold_about_as_much_of_the_truth(seed: int) -> None:
    torch.manual_seed(seed)
    algorithm = model()
    learn(algorithm)
    number = 1000
    truth, plan = starts(number), 2 * torch.rand(number, STEPS, 1) - 1
    paths = algorithm.imagine(truth, plan)
    assert paths.shape == (number, 200, STEPS + 1, 2)
    for h in range(STEPS):
        truth = world(truth, plan[:, h])
        low, high = torch.quantile(paths[:, :, h + 1], torch.tensor([0.025, 0.975]), 1)
        coverage = ((truth >= low) & (truth <= high)).float().mean().item()
        print(f"seed {seed}, {h + 1} steps ahead: {100 * coverage:.1f} %")
        assert 0.90 <= coverage <= 0.98
