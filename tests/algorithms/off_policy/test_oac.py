"""What OAC changes about SAC: the rollout is shifted to where the critics disagree."""

import inspect
import math
from functools import partial
from typing import Any
from unittest.mock import sentinel

import pytest
import torch
from torch import Tensor, nn

from rein.algorithms.losses import OneStepTDQRLoss
from rein.algorithms.off_policy import OacAlgorithm, QrsacAlgorithm, SacAlgorithm
from rein.data_structures import restart
from rein.networks import (
    ActorDistributionNetwork,
    BetaProjectionNetwork,
    CriticNetwork,
    CriticRNNNetwork,
    Network,
    NormalProjectionNetwork,
    QNetwork,
)
from rein.networks.state import zero_state
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((3,))
ACTION = BoundedTensorSpec((2,), torch.float32, -3.0, 3.0)
DISCRETE = BoundedTensorSpec((), torch.int64, 0, 3)
SQUASHED = partial(NormalProjectionNetwork, state_dependent_std=True, scale_distribution=True)
PLAIN = partial(NormalProjectionNetwork, squash_mean=False, state_dependent_std=True)


def make(action_spec: Any = ACTION, projection: Any = SQUASHED, **changes: Any) -> OacAlgorithm:
    torch.manual_seed(0)
    arguments: dict[str, Any] = {
        "actor_network_cls": partial(ActorDistributionNetwork, continuous_projection_net_ctor=projection),
        "critic_network_cls": partial(CriticNetwork, joint_fc_layer_params=(4,)),
    }
    return OacAlgorithm(OBSERVATION, action_spec, **{**arguments, **changes})


def time_step(size: int = 5) -> Any:
    torch.manual_seed(1)
    return restart(torch.randn(size, 3), ACTION)


class LinearCritic(Network):
    """Q(s, a) = w a; replicas get the weights (1, 2) and (3, 2) in turn."""

    counter = 0

    def __init__(self, input_tensor_spec: Any, name: str = "critic") -> None:
        super().__init__(input_tensor_spec, name=name)
        LinearCritic.counter += 1
        self.weight = nn.Parameter(torch.tensor([3.0 if LinearCritic.counter % 2 else 1.0, 2.0]))

    def forward(self, inputs: tuple[Tensor, Tensor], state: Any = ()) -> tuple[Tensor, Any]:
        return (inputs[1] * self.weight).sum(-1), state


def test_the_shift_by_hand() -> None:
    """Where the first action is positive: mean 2 a_1 + 2 a_2, deviation a_1; so g = (2 + beta, 2)."""
    algorithm = make(projection=PLAIN, critic_network_cls=LinearCritic, beta_ub=1.5, explore_delta=2.0)
    weights = sorted(algorithm._critic_networks.parameters().__next__().tolist())
    assert weights == [[1.0, 2.0], [3.0, 2.0]]
    inputs = time_step()
    distribution, _ = algorithm._actor_network(inputs.observation)
    shifted = algorithm._optimistic(inputs.observation, distribution)
    sign = distribution.loc[:, :1].sign()
    gradient = torch.cat([2.0 + 1.5 * sign, torch.full_like(sign, 2.0)], -1)
    variance = distribution.scale.square()
    norm = (gradient.square() * variance).sum(-1, keepdim=True).sqrt()
    expected = distribution.loc + math.sqrt(2 * 2.0) * variance * gradient / norm
    assert torch.allclose(shifted.loc, expected, atol=1e-5)
    assert torch.equal(shifted.scale, distribution.scale)


def test_the_shift_costs_delta_in_divergence() -> None:
    for delta in (0.5, 6.8):
        algorithm, inputs = make(explore_delta=delta), time_step()
        distribution, _ = algorithm._actor_network(inputs.observation)
        shifted = algorithm._optimistic(inputs.observation, distribution)
        divergence = 0.5 * ((shifted.loc - distribution.loc) / distribution.scale).square().sum(-1)
        assert torch.allclose(divergence, torch.full((5,), delta), rtol=1e-3)


def test_optimism_raises_the_upper_bound() -> None:
    algorithm, inputs = make(explore_delta=1e-4), time_step()
    distribution, _ = algorithm._actor_network(inputs.observation)
    shifted = algorithm._optimistic(inputs.observation, distribution)
    before = algorithm._upper_bound(inputs.observation, distribution.mode)
    after = algorithm._upper_bound(inputs.observation, shifted.mode)
    assert (after >= before).all()


def test_beta_ub_weighs_the_disagreement() -> None:
    inputs = time_step()
    action = torch.ones(5, 2)
    neutral, optimistic = make(beta_ub=0.0), make(beta_ub=2.0)
    q = neutral._critic_networks((inputs.observation, action))[0]
    assert torch.allclose(neutral._upper_bound(inputs.observation, action), q.mean(1))
    difference = (q[:, 0] - q[:, 1]).abs()
    assert torch.allclose(optimistic._upper_bound(inputs.observation, action), q.mean(1) + difference, atol=1e-6)


def test_only_the_rollout_explores() -> None:
    inputs = time_step()
    actions = {}
    for explore in (True, False):
        algorithm = make(explore=explore)
        state = zero_state(algorithm.rollout_state_spec, 5)
        torch.manual_seed(2)
        with torch.no_grad():
            actions[explore] = algorithm.rollout_step(inputs, state).output
        predicted = algorithm.predict_step(inputs, state).output
        assert torch.equal(predicted, algorithm._actor_network(inputs.observation)[0].mode)
        assert all(p.grad is None for p in algorithm.parameters())
    assert not torch.allclose(actions[True], actions[False])


def test_without_exploring_discrete_actions_are_fine() -> None:
    algorithm = make(DISCRETE, explore=False, q_network_cls=QNetwork)
    step = algorithm.rollout_step(time_step(), zero_state(algorithm.rollout_state_spec, 5))
    assert step.output.shape == (5,)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="explore=False"):
        make(DISCRETE)
    with pytest.raises(ValueError, match="at least 2"):
        make(num_critic_replicas=1)
    with pytest.raises(ValueError, match="explore_delta is -1"):
        make(explore_delta=-1.0)
    with pytest.raises(ValueError, match="without memory"):
        make(critic_network_cls=CriticRNNNetwork)
    beta = make(projection=BetaProjectionNetwork)
    with pytest.raises(TypeError, match="normal distributions"):
        beta.rollout_step(time_step(), zero_state(beta.rollout_state_spec, 5))


@pytest.mark.parametrize("relative", [OacAlgorithm, QrsacAlgorithm])
def test_what_is_not_its_own_goes_to_sac_under_the_same_name(relative: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class EndOfTestError(Exception):
        """Ends the construction."""

    received: dict[str, Any] = {}

    def record(self: Any, *args: Any, **kwargs: Any) -> None:
        received.update(inspect.signature(unchanged).bind(self, *args, **kwargs).arguments)
        raise EndOfTestError

    names = inspect.signature(relative).parameters.keys() & inspect.signature(SacAlgorithm).parameters.keys()
    real = {
        "action_spec": ACTION,
        "reward_spec": TensorSpec(()),
        "num_critic_replicas": 3,
        "critic_network_cls": None,
        "critic_loss_ctor": OneStepTDQRLoss,
    }
    given = {name: getattr(sentinel, name) for name in names} | real
    unchanged = SacAlgorithm.__init__
    monkeypatch.setattr(SacAlgorithm, "__init__", record)
    with pytest.raises(EndOfTestError):
        relative(**given)
    assert len(names) > 20
    assert {name: received[name] for name in names} == given
