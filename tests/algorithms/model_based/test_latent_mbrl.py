"""Planning in the latent space of a representation learner, alone and in an agent."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from rein.agents import Agent
from rein.agents.built_in_parts import predictive
from rein.algorithms.model_based import LatentMbrlAlgorithm, MbrlInfo, RandomShootingAlgorithm
from rein.algorithms.representation import EncodingAlgorithm, PredictiveRepresentationLearner, SimpleDecoder
from rein.algorithms.representation.predictive_representation_learner import PredictiveRepresentationLearnerInfo
from rein.data_structures import LossInfo, TimeStep
from rein.networks import EncodingNetwork, LSTMEncodingNetwork, ResidualCell
from rein.networks.layers import identity
from rein.networks.state import zero_state
from rein.specs import BoundedTensorSpec, TensorSpec

LATENT = TensorSpec((2,))
ACTION = BoundedTensorSpec((1,), torch.float32, -1, 1)
LATENT_MBRL = partial(
    LatentMbrlAlgorithm, planner_module_ctor=partial(RandomShootingAlgorithm, population_size=9, planning_horizon=3)
)


class Summing:
    """Predicts at step k the first number of the latent, plus all actions before, plus 100 at step 0."""

    name = "Summing"
    num_unroll_steps = 3

    def __init__(self, is_vector: bool = False) -> None:
        self.is_vector = is_vector

    def predict_multi_step(self, init_latent: Tensor, actions: Tensor, target_field: str, state: Any = None) -> Tensor:
        assert target_field == "reward"
        begin = init_latent[:, :1]
        sums = torch.cat([begin + 100.0, begin + actions[..., 0].cumsum(1)], 1)
        return torch.stack([sums, torch.full_like(sums, 7.0)], -1) if self.is_vector else sums


@pytest.mark.parametrize("is_vector", [False, True])
def test_plans_cost_minus_the_rewards_after_each_action(is_vector: bool) -> None:
    algorithm = LATENT_MBRL(LATENT, ACTION)
    algorithm.set_latent_predictive_representation_module(Summing(is_vector))
    latent = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    plans = torch.tensor([[[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]] * 2).unsqueeze(-1)
    cost = algorithm._cost_of_plans(latent, plans)
    assert cost.tolist() == [[-(2.0 + 4.0 + 7.0), -3.0], [-(0.0 + 2.0 + 5.0), 3.0]]


def test_a_horizon_beyond_what_is_learnt_is_warned_of() -> None:
    algorithm = LATENT_MBRL(LATENT, ACTION)
    short = Summing()
    short.num_unroll_steps = 2
    with pytest.warns(UserWarning, match="plans 3 steps ahead, but Summing learns to predict 2"):
        algorithm.set_latent_predictive_representation_module(short)


def decoder(field: str, latent_spec: TensorSpec) -> SimpleDecoder:
    network = partial(EncodingNetwork, output_tensor_spec=TensorSpec(()), last_layer_size=1, last_activation=identity)
    return SimpleDecoder(latent_spec, field, network)


def learner(field: str = "reward", **arguments: Any) -> Any:
    usual: dict[str, Any] = {
        "num_unroll_steps": 3,
        "decoder_ctor": partial(decoder, field),
        "encoding_net_ctor": partial(EncodingNetwork, fc_layer_params=(4,)),
        "dynamics_net_ctor": partial(LSTMEncodingNetwork, hidden_size=4),
    }
    return partial(PredictiveRepresentationLearner, **{**usual, **arguments})


def agent(**parts: Any) -> Agent:
    return Agent(TensorSpec((3,)), ACTION, rl_algorithm_cls=LATENT_MBRL, **parts)


def test_an_agent_plans_with_its_representation_learner() -> None:
    torch.manual_seed(0)
    built = agent(representation_learner_cls=learner())
    rl, representation = built._rl_algorithm, built._representation_learner
    assert isinstance(rl, LatentMbrlAlgorithm)
    latent, plans = torch.randn(2, 4), torch.randn(2, 5, 3, 1)
    cost = rl._cost_of_plans(latent, plans)
    for b in range(2):
        for m in range(5):
            reward = representation.predict_multi_step(latent[b : b + 1], plans[b, m : m + 1], "reward")  # type: ignore[union-attr,operator]
            torch.testing.assert_close(cost[b, m], -reward[0, 1:].sum())
    assert not list(rl.parameters()), "the parameters stay those of the learner"
    assert not any(key.startswith("_rl_algorithm") and "net" in key for key in built.state_dict())


def test_there_is_nothing_to_learn() -> None:
    rl = agent(representation_learner_cls=learner())._rl_algorithm
    state = zero_state(rl.train_state_spec, 2)
    step = rl.train_step((), state)  # type: ignore[call-arg]
    assert step.state is state
    assert step.info == ()
    assert rl.calc_loss(MbrlInfo()) == LossInfo()
    assert rl.train_recurrent_sequences((), state, ()) == ()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "but there is none: compose it with a PredictiveRepresentationLearner"),
        (
            {"representation_learner_cls": partial(EncodingAlgorithm, encoder_cls=EncodingNetwork)},
            "but it is EncodingAlgorithm",
        ),
        ({"representation_learner_cls": learner("discount")}, "no decoder predicts 'reward'"),
        ({"representation_learner_cls": learner(postprocessor=torch.tanh)}, "leave the postprocessor out"),
        (
            {"representation_learner_cls": learner(encoding_net_ctor=partial(LSTMEncodingNetwork, hidden_size=4))},
            "begin with the state of the encoder",
        ),
    ],
)
def test_an_agent_that_cannot_plan_is_refused(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        agent(**parts)


def test_without_an_agent_it_says_what_it_lacks() -> None:
    algorithm = LATENT_MBRL(LATENT, ACTION)
    with pytest.raises(ValueError, match="has nothing to plan with"):
        algorithm._cost_of_plans(torch.zeros(1, 2), torch.zeros(1, 1, 3, 1))
    with pytest.raises(ValueError, match="but the representation learner is 3"):
        algorithm.set_latent_predictive_representation_module(3)


def test_a_residual_model_learns_what_actions_change() -> None:
    torch.manual_seed(0)
    horizon, observation_spec = 3, TensorSpec((1,))
    make = predictive(horizon, (16,), decoder_layers=(16,), cell=ResidualCell)["representation_learner_cls"]
    learner = make(observation_spec, ACTION, reward_spec=TensorSpec(()))
    optimizer = torch.optim.Adam(learner.parameters(), lr=1e-2)

    def world(position: Tensor, actions: Tensor) -> Tensor:
        """Positions [B, K + 1, 1], s' = s + a; the reward is -s'^2."""
        return torch.cat([position.unsqueeze(1), position.unsqueeze(1) + actions.cumsum(1)], 1)

    for _ in range(150):
        position, actions = 2.0 * torch.randn(64, 1), 2.0 * torch.rand(64, horizon, 1) - 1.0
        truth = world(position, actions)
        info = PredictiveRepresentationLearnerInfo(
            actions, torch.ones(64, horizon + 1, dtype=torch.bool), [-truth.square().squeeze(-1), truth]
        )
        loss = learner.train_step(TimeStep(observation=position), (), info).info.loss.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    algorithm = LATENT_MBRL(learner.output_spec, ACTION)
    algorithm.set_latent_predictive_representation_module(learner)
    position, plans = torch.randn(5, 1), 2.0 * torch.rand(5, 40, horizon, 1) - 1.0
    latent = learner.predict_step(TimeStep(observation=position), ()).output
    cost = algorithm._cost_of_plans(latent, plans)
    truth = world(position.repeat_interleave(40, 0), plans.flatten(0, 1))[:, 1:].square().sum((1, 2)).reshape(5, 40)
    for some, others in zip(cost, truth, strict=True):
        assert torch.corrcoef(torch.stack([some, others]))[0, 1] > 0.9
