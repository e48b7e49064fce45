"""Policies on the host: the actions that the network's own distribution gives."""

import numpy as np
import pytest
import torch

from rein.networks import ActorDistributionNetwork, HostGreedyPolicy, HostPolicy, NormalProjectionNetwork, QNetwork
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((5,))
DISCRETE = BoundedTensorSpec((), torch.int64, 0, 3)
CONTINUOUS = BoundedTensorSpec((2,), torch.float32, -1.0, 3.0)


def _normal(**settings: object) -> ActorDistributionNetwork:
    return ActorDistributionNetwork(
        OBSERVATION,
        CONTINUOUS,
        fc_layer_params=(16, 8),
        activation=torch.tanh,
        continuous_projection_net_ctor=lambda size, action_spec: NormalProjectionNetwork(
            size,
            action_spec,
            **settings,  # type: ignore[arg-type]
        ),
    )


def test_choices_are_the_best_logits_plus_noise() -> None:
    network = ActorDistributionNetwork(OBSERVATION, DISCRETE, fc_layer_params=(16, 8))
    policy = HostPolicy.of(network)
    assert policy is not None
    noise = policy.draw_noise(3, 7)
    assert noise.shape == (3, 7, 4)
    observation = torch.randn(7, 5)
    logits = network(observation)[0].logits
    expected = (logits.detach() + torch.from_numpy(noise[1])).argmax(-1)
    action = policy.act(observation.numpy(), noise[1])
    assert action.dtype == np.int64
    assert action.tolist() == expected.tolist()


def test_frequencies_of_choices() -> None:
    network = ActorDistributionNetwork(OBSERVATION, DISCRETE, fc_layer_params=(16,))
    with torch.no_grad():
        network.projections[0].logits.bias.copy_(torch.tensor([0.0, 1.0, 2.0, -1.0]))
    policy = HostPolicy.of(network)
    assert policy is not None
    observation = torch.randn(1, 5).expand(40_000, 5).contiguous()
    action = policy.act(observation.numpy(), policy.draw_noise(40_000))
    expected = network(observation[:1])[0].logits.softmax(-1)[0]
    frequencies = torch.bincount(torch.from_numpy(action), minlength=4) / len(action)
    torch.testing.assert_close(frequencies, expected, rtol=0.0, atol=0.015)


@pytest.mark.parametrize("squash_mean", [False, True])
def test_normal_actions_are_mean_plus_deviation_times_noise(squash_mean: bool) -> None:
    network = _normal(squash_mean=squash_mean, std_bias_initializer_value=0.3)
    policy = HostPolicy.of(network)
    assert policy is not None
    noise = policy.draw_noise(6)
    observation = torch.randn(6, 5)
    distribution = network(observation)[0]
    expected = distribution.mean + distribution.stddev * torch.from_numpy(noise)
    torch.testing.assert_close(torch.from_numpy(policy.act(observation.numpy(), noise)), expected)


def test_it_follows_updates_of_the_network() -> None:
    network = _normal(squash_mean=False)
    policy = HostPolicy.of(network)
    assert policy is not None
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1)
    noise = policy.draw_noise(4)
    observation = torch.randn(4, 5)
    distribution = network(observation)[0]
    expected = distribution.mean + distribution.stddev * torch.from_numpy(noise)
    torch.testing.assert_close(torch.from_numpy(policy.act(observation.numpy(), noise)), expected)


@pytest.mark.parametrize(
    "network",
    [
        _normal(state_dependent_std=True),
        _normal(scale_distribution=True),
        ActorDistributionNetwork(OBSERVATION, (DISCRETE, CONTINUOUS), fc_layer_params=(8,)),
        ActorDistributionNetwork(OBSERVATION, DISCRETE, fc_layer_params=(8,), use_fc_ln=True),
        ActorDistributionNetwork(OBSERVATION, DISCRETE, fc_layer_params=(8,), activation=torch.sigmoid),
        ActorDistributionNetwork(OBSERVATION, DISCRETE, fc_layer_params=(512, 512)),
        ActorDistributionNetwork(TensorSpec((3, 8, 8)), DISCRETE, conv_layer_params=((4, 3, 1),), fc_layer_params=(8,)),
    ],
)
def test_other_networks_have_none(network: ActorDistributionNetwork) -> None:
    assert HostPolicy.of(network) is None


@pytest.mark.parametrize("replicas", [1, 2])
def test_greedy_actions_are_those_of_the_lowest_values(replicas: int) -> None:
    networks = QNetwork(OBSERVATION, DISCRETE, fc_layer_params=(16, 8)).make_parallel(replicas)
    policy = HostGreedyPolicy.of(networks, lambda: 0.0)
    assert policy is not None
    observation = torch.randn(50, 5)
    expected = networks(observation)[0].amin(1).argmax(-1)
    assert policy.act(observation.numpy(), policy.draw_noise(50)).tolist() == expected.tolist()


def test_random_actions_come_as_often_as_epsilon_says() -> None:
    networks = QNetwork(OBSERVATION, DISCRETE, fc_layer_params=(16,)).make_parallel(1)
    policy = HostGreedyPolicy.of(networks, lambda: 0.4)
    assert policy is not None
    observation = torch.randn(1, 5).expand(40_000, 5).contiguous()
    best = int(networks(observation[:1])[0].argmax())
    action = policy.act(observation.numpy(), policy.draw_noise(40_000))
    frequencies = torch.bincount(torch.from_numpy(action), minlength=4) / len(action)
    expected = torch.full((4,), 0.1)
    expected[best] += 0.6
    torch.testing.assert_close(frequencies, expected, rtol=0.0, atol=0.01)


@pytest.mark.parametrize("settings", [{"dueling": True}, {"noisy": True}, {"num_quantiles": 3}])
def test_other_q_networks_have_no_host_policy(settings: dict[str, object]) -> None:
    network = QNetwork(OBSERVATION, DISCRETE, fc_layer_params=(16,), **settings)  # type: ignore[arg-type]
    assert HostGreedyPolicy.of(network.make_parallel(2), lambda: 0.0) is None
