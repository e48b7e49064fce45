"""Policies on the host: the actions that the network's own distribution gives."""

from typing import Any

import numpy as np
import pytest
import torch

from rein.networks import (
    ActorDistributionNetwork,
    ActorNetwork,
    HostActor,
    HostGreedyPolicy,
    HostPolicy,
    HostSoftPolicy,
    NormalProjectionNetwork,
    QNetwork,
    StableNormalProjectionNetwork,
)
from rein.networks.host_layers import LARGEST_PRODUCT
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((5,))
DISCRETE = BoundedTensorSpec((), torch.int64, 0, 3)
CONTINUOUS = BoundedTensorSpec((2,), torch.float32, -1.0, 3.0)


def _normal(ctor: type = NormalProjectionNetwork, **settings: object) -> ActorDistributionNetwork:
    return ActorDistributionNetwork(
        OBSERVATION,
        CONTINUOUS,
        fc_layer_params=(16, 8),
        activation=torch.tanh,
        continuous_projection_net_ctor=lambda size, action_spec: ctor(size, action_spec, **settings),
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


@pytest.mark.parametrize("scale_distribution", [False, True])
@pytest.mark.parametrize("state_dependent_std", [False, True])
@pytest.mark.parametrize("squash_mean", [False, True])
@pytest.mark.parametrize("transform", ["tanh", "clip"])
@pytest.mark.parametrize("ctor", [NormalProjectionNetwork, StableNormalProjectionNetwork])
def test_normal_actions_are_those_of_the_distribution(
    ctor: type, transform: str, squash_mean: bool, state_dependent_std: bool, scale_distribution: bool
) -> None:
    network = _normal(
        ctor,
        squash_mean=squash_mean,
        state_dependent_std=state_dependent_std,
        scale_distribution=scale_distribution,
        dist_squashing_transform=transform,
        projection_output_init_gain=1.0,
    )
    policy = HostPolicy.of(network)
    assert policy is not None
    torch.manual_seed(5)
    noise = policy.draw_noise(1, 60)[0]
    observation = 2.0 * torch.randn(60, 5)
    torch.manual_seed(5)
    expected = network(observation)[0].sample()
    torch.testing.assert_close(torch.from_numpy(policy.act(observation.numpy(), noise)), expected, rtol=2e-6, atol=2e-6)


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
    assert policy.act(observation.numpy(), policy.draw_noise(1, 50)[0]).tolist() == expected.tolist()


def test_random_actions_come_as_often_as_epsilon_says() -> None:
    networks = QNetwork(OBSERVATION, DISCRETE, fc_layer_params=(16,)).make_parallel(1)
    policy = HostGreedyPolicy.of(networks, lambda: 0.4)
    assert policy is not None
    observation = torch.randn(1, 5).expand(40_000, 5).contiguous()
    best = int(networks(observation[:1])[0].argmax())
    action = policy.act(observation.numpy(), policy.draw_noise(1, 40_000)[0])
    frequencies = torch.bincount(torch.from_numpy(action), minlength=4) / len(action)
    expected = torch.full((4,), 0.1)
    expected[best] += 0.6
    torch.testing.assert_close(frequencies, expected, rtol=0.0, atol=0.01)


@pytest.mark.parametrize("settings", [{"dueling": True}, {"noisy": True}, {"num_quantiles": 3}])
def test_other_q_networks_have_no_host_policy(settings: dict[str, object]) -> None:
    network = QNetwork(OBSERVATION, DISCRETE, fc_layer_params=(16,), **settings)  # type: ignore[arg-type]
    assert HostGreedyPolicy.of(network.make_parallel(2), lambda: 0.0) is None


@pytest.mark.parametrize("squashing", [torch.tanh, None])
@pytest.mark.parametrize("spec", [CONTINUOUS, BoundedTensorSpec((2, 2), torch.float32, -1.0, [[1.0, 2.0], [3.0, 4.0]])])
def test_a_deterministic_policy_is_its_network(spec: BoundedTensorSpec, squashing: Any) -> None:
    network = ActorNetwork(OBSERVATION, spec, fc_layer_params=(16,), squashing_func=squashing)
    actor = HostActor.of(network)
    assert actor is not None
    actor.refresh()
    observation = 9.0 * torch.randn(30, 5)
    expected = network(observation)[0].detach().flatten(1)
    torch.testing.assert_close(torch.from_numpy(actor(observation.numpy())), expected)


def test_several_actions_have_no_host_actor() -> None:
    assert HostActor.of(ActorNetwork(OBSERVATION, (CONTINUOUS, CONTINUOUS), fc_layer_params=(16,))) is None


def test_a_policy_without_limit_may_be_large() -> None:
    network = ActorDistributionNetwork(OBSERVATION, DISCRETE, fc_layer_params=(512, 512))
    assert HostPolicy.of(network, max_weights=None) is not None


@pytest.mark.parametrize("replicas", [None, 2])
def test_products_that_torch_makes_give_the_same(replicas: int | None) -> None:
    if replicas is None:
        network: Any = ActorNetwork(OBSERVATION, CONTINUOUS, fc_layer_params=(300, 300))
        host: Any = HostActor.of(network)
    else:
        network = QNetwork(OBSERVATION, DISCRETE, fc_layer_params=(300, 300)).make_parallel(replicas)
        host = HostGreedyPolicy.of(network, lambda: 0.0)._values
    host.refresh()
    few, many = torch.randn(2, 5), torch.randn(40, 5)
    assert 2 * 300 * 300 <= LARGEST_PRODUCT < 40 * 300 * 300
    for observation in (few, many):
        expected = network(observation)[0].detach()
        expected = expected if replicas is None else expected.amin(1)
        torch.testing.assert_close(torch.from_numpy(host(observation.numpy())), expected, rtol=1e-5, atol=1e-5)


def test_soft_choices_come_as_often_as_values_and_temperature_say() -> None:
    networks = QNetwork(OBSERVATION, DISCRETE, fc_layer_params=(16,)).make_parallel(2)
    policy = HostSoftPolicy.of(networks, lambda: 0.1)
    assert policy is not None
    observation = 3.0 * torch.ones(40_000, 5)
    action = policy.act(observation.numpy(), policy.draw_noise(1, 40_000)[0])
    expected = (networks(observation[:1])[0].amin(1)[0] / 0.1).softmax(-1).detach()
    assert expected.max() - expected.min() > 0.1
    frequencies = torch.bincount(torch.from_numpy(action), minlength=4) / len(action)
    torch.testing.assert_close(frequencies, expected, rtol=0.0, atol=0.015)
