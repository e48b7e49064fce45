"""Containers compute what the same algorithms would by hand, and train it."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from rein import nest
from rein.algorithms.losses import ActorCriticLoss
from rein.algorithms.on_policy import ActorCriticAlgorithm
from rein.algorithms.on_policy.actor_critic import ActorCriticInfo
from rein.data_structures import AlgStep, BatchInfo, LossInfo
from rein.distributions import sample_action_distribution
from rein.envs import create_environment
from rein.framework import (
    Algorithm,
    AlgorithmContainer,
    EchoAlg,
    Loss,
    OffPolicyAlgorithm,
    OnPolicyAlgorithm,
    RLAlgWrapper,
    SequentialAlg,
    TrainerConfig,
)
from rein.framework.containers import sum_losses
from rein.nest import Nest
from rein.networks import ActorDistributionNetwork, Delay, EncodingNetwork, LSTMEncodingNetwork, ValueNetwork
from rein.networks.state import zero_state
from rein.optimizers import SGD, Adam
from rein.specs import BoundedTensorSpec, TensorSpec


class Scale(Algorithm):
    """Output and info are the input times a parameter; its state counts steps."""

    def __init__(self, factor: float = 2.0, **kwargs: Any) -> None:
        super().__init__(train_state_spec=TensorSpec(()), **kwargs)
        self.factor = nn.Parameter(torch.tensor(factor))
        self.calls: list[Any] = []

    def _step(self, inputs: Any, state: Any) -> AlgStep:
        return AlgStep(output=self.factor * inputs, state=state + 1, info=self.factor * inputs)

    def predict_step(self, inputs: Any, state: Any) -> AlgStep:
        return self._step(inputs, state)._replace(info="predicted")

    def rollout_step(self, inputs: Any, state: Any) -> AlgStep:
        return self._step(inputs, state)

    def train_step(self, inputs: Any, state: Any, rollout_info: Any) -> AlgStep:
        self.calls.append(("train", rollout_info))
        return self._step(inputs, state)

    def calc_loss(self, info: Any) -> LossInfo:
        return LossInfo(loss=info, extra={"mean": info.mean()})

    def preprocess_experience(self, root_inputs: Any, rollout_info: Any, batch_info: BatchInfo) -> tuple[Any, Any]:
        self.calls.append(("preprocess", rollout_info))
        return root_inputs + 1, rollout_info * 10

    def after_update(self, root_inputs: Any, info: Any) -> None:
        self.calls.append(("after_update", info))

    def after_train_iter(self, root_inputs: Any, rollout_info: Any) -> None:
        self.calls.append(("after_train_iter", rollout_info))


class OnPolicy(Scale):
    @property
    def on_policy(self) -> bool:
        return True


class OffPolicy(Scale):
    @property
    def on_policy(self) -> bool:
        return False


def x(value: float = 3.0) -> torch.Tensor:
    return torch.tensor([value])


class TestSequential:
    def test_each_takes_the_output_of_the_one_before(self) -> None:
        alg = SequentialAlg(Scale(2.0), lambda v: v + 1, a=Scale(3.0), b=lambda v: -v)
        step = alg.rollout_step(x(), zero_state(alg.rollout_state_spec, 1))
        assert step.output.tolist() == [-(3 * 2 + 1) * 3]
        assert step.info["_0"].tolist() == [6.0]
        assert step.info["a"].tolist() == [21.0]

    def test_paths_reach_inputs_outputs_infos_and_states(self) -> None:
        alg = SequentialAlg(
            a=("input.x", Scale(2.0)),
            b=(("a", "input.y"), lambda pair: pair[0] * pair[1]),
            c=({"info": "info.a", "state": "state.a"}, lambda d: d["info"] + d["state"]),
            output={"first": "a", "all": ("b", "c")},
        )
        inputs = {"x": x(3.0), "y": x(5.0)}
        step = alg.rollout_step(inputs, zero_state(alg.rollout_state_spec, 1))
        assert step.output["first"].tolist() == [6.0]
        assert [part.tolist() for part in step.output["all"]] == [[30.0], [7.0]]

    def test_which_step_is_called(self) -> None:
        inner = Scale(2.0)
        alg = SequentialAlg(a=inner)
        state = zero_state(alg.train_state_spec, 1)
        assert alg.predict_step(x(), state).info["a"] == "predicted"
        alg.train_step(x(), state, {"a": "remembered"})
        assert inner.calls == [("train", "remembered")]

    def test_states_are_kept_apart(self) -> None:
        alg = SequentialAlg(a=Scale(), b=LSTMEncodingNetwork(TensorSpec((1,)), hidden_size=4), c=nn.Linear(4, 1))
        with pytest.raises(Exception):  # noqa: B017, PT011 - a scalar output does not fit the network
            alg.rollout_step(x(), zero_state(alg.rollout_state_spec, 1))
        alg = SequentialAlg(b=LSTMEncodingNetwork(TensorSpec((1,)), hidden_size=4), c=nn.Linear(4, 1))
        state = zero_state(alg.rollout_state_spec, 2)
        step = alg.rollout_step(torch.ones(2, 1), state)
        nest.assert_same_structure(step.state, alg.rollout_state_spec)
        again = alg.rollout_step(torch.ones(2, 1), step.state)
        assert not torch.equal(step.output, again.output)

    def test_losses_are_summed_and_named(self) -> None:
        alg = SequentialAlg(a=Scale(2.0), b=Scale(5.0))
        info = {"a": torch.ones(2, 3), "b": torch.full((2, 3), 4.0)}
        loss = alg.calc_loss(info)
        assert torch.equal(loss.loss, torch.full((2, 3), 5.0))
        assert set(loss.extra) == {"a", "b"}

    def test_hooks_reach_every_algorithm_with_its_own_info(self) -> None:
        a, b = Scale(), Scale()
        alg = SequentialAlg(a=a, b=b)
        root, info = alg.preprocess_experience(torch.zeros(1), {"a": x(1.0), "b": x(2.0)}, BatchInfo())
        assert root.tolist() == [2.0]
        assert info["a"].tolist() == [10.0]
        assert info["b"].tolist() == [20.0]
        alg.after_update(None, {"a": 1, "b": 2})
        alg.after_train_iter(None, {"a": 3})
        alg.after_train_iter(None, None)
        assert [call for call in b.calls if call[0] != "preprocess"] == [
            ("after_update", 2),
            ("after_train_iter", ()),
            ("after_train_iter", None),
        ]

    def test_paths_and_policy_are_told(self) -> None:
        a, b = Scale(), Scale()
        alg = SequentialAlg(a=a, b=b)
        alg.set_path("")
        assert (a.path, b.path) == ("a", "b")
        alg.set_path("root")
        assert a.path == "root.a"
        assert alg.on_policy is None
        alg.set_on_policy(True)
        assert a.on_policy is True
        assert b.on_policy is True

    def test_on_policy_follows_the_parts(self) -> None:
        assert SequentialAlg(a=Scale(), b=OnPolicy()).on_policy is True
        assert SequentialAlg(a=OffPolicy()).on_policy is False
        with pytest.raises(ValueError, match="mixes on-policy and off-policy"):
            SequentialAlg(a=OnPolicy(), b=OffPolicy())
        with pytest.raises(ValueError, match="off-policy and cannot be used"):
            SequentialAlg(a=OffPolicy(), is_on_policy=True)

    def test_wrong_modules_are_refused(self) -> None:
        with pytest.raises(ValueError, match="has no module"):
            SequentialAlg()
        with pytest.raises(ValueError, match=r"\['input'\] cannot name a module"):
            SequentialAlg(input=Scale())
        with pytest.raises(TypeError, match="give an algorithm, a network, a module or a function"):
            SequentialAlg(a=3)
        with pytest.raises(ValueError, match="a tuple of 3"):
            SequentialAlg(a=("input", "more", Scale()))

    def test_all_parameters_are_optimized_and_saved(self) -> None:
        alg = SequentialAlg(Scale(), a=nn.Linear(1, 1), b=Scale(optimizer=SGD(lr=1.0)), is_on_policy=True)
        wrapper = RLAlgWrapper(
            TensorSpec(()), BoundedTensorSpec((), minimum=0, maximum=1), alg, optimizer=Adam(lr=1e-3)
        )
        assert len(wrapper.optimizers()) == 2
        assert wrapper.get_unoptimized_parameter_info() == ""
        assert sum("factor" in key or "weight" in key for key in wrapper.state_dict()) == 3

    def test_a_predictor_of_the_future_learns_as_documented(self) -> None:
        torch.manual_seed(0)
        predictor = EncodingNetwork(
            TensorSpec((1,)), fc_layer_params=(), last_layer_size=1, last_activation=lambda v: v
        )
        alg = SequentialAlg(
            predicted=predictor,
            delayed=Delay(TensorSpec((1,))),
            error=(("delayed", "input"), lambda pair: (pair[0] - pair[1]).square().mean(-1)),
            loss=Loss(),
            output="predicted",
            is_on_policy=True,
        )
        optimizer = torch.optim.Adam(predictor.parameters(), lr=0.1)
        for _ in range(100):
            state = zero_state(alg.rollout_state_spec, 4)
            value = torch.randn(4, 1)
            infos = []
            for t in range(4):
                step = alg.rollout_step(value, state)
                infos.append(step.info["loss"] if t else torch.zeros(4))
                value, state = 0.5 * value + 1, step.state
            loss = alg.calc_loss({"loss": torch.stack(infos)}).loss.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        prediction = alg.rollout_step(torch.tensor([[4.0]]), zero_state(alg.rollout_state_spec, 1)).output
        assert prediction.item() == pytest.approx(3.0, abs=0.1)


class TestLoss:
    def test_it_weighs_and_averages_over_what_is_left(self) -> None:
        loss = Loss(loss_weight=3.0).calc_loss(torch.tensor([[[1.0, 3.0]]]))
        assert loss.loss.tolist() == [[6.0]]
        assert loss.extra.tolist() == [[2.0]]

    def test_infos_exist_where_they_are_learnt_from(self) -> None:
        loss = Loss()
        assert loss.rollout_step(x()).info == ()
        loss.set_on_policy(True)
        assert loss.rollout_step(x()).info.tolist() == [3.0]
        assert loss.predict_step(x()).info == ()
        assert loss.train_step(x()).info.tolist() == [3.0]


class TestSumOfLosses:
    def test_scalar_losses_and_priorities(self) -> None:
        total = sum_losses(
            {
                "a": LossInfo(loss=torch.ones(2, 3), priority=torch.ones(3)),
                "b": LossInfo(scalar_loss=torch.tensor(2.0)),
                "c": LossInfo(loss=torch.ones(2, 3), scalar_loss=torch.tensor(3.0), extra=torch.tensor(7.0)),
            }
        )
        assert torch.equal(total.loss, torch.full((2, 3), 2.0))
        assert total.scalar_loss.item() == 5.0
        assert list(total.extra) == ["c"]
        assert total.priority.shape == (3,)
        with pytest.raises(ValueError, match="several of"):
            sum_losses({"a": LossInfo(priority=torch.ones(1)), "b": LossInfo(priority=torch.ones(1))})

    def test_nothing_is_nothing(self) -> None:
        assert sum_losses({}).loss == ()


class Adder(Algorithm):
    """Adds its input to what it said last."""

    def rollout_step(self, inputs: Any, state: Any) -> AlgStep:
        total = inputs["input"] + inputs["echo"]
        return AlgStep(output={"output": 10 * total, "echo": total}, state=state, info=total)

    predict_step = rollout_step

    def train_step(self, inputs: Any, state: Any, rollout_info: Any) -> AlgStep:
        return self.rollout_step(inputs, state)


def test_an_echo_comes_back_at_the_next_step() -> None:
    alg = EchoAlg(Adder(), TensorSpec(()))
    state = zero_state(alg.rollout_state_spec, 1)
    outputs = []
    for value in (1.0, 2.0, 3.0):
        step = alg.rollout_step(x(value), state)
        state = step.state
        outputs.append(step.output.item())
    assert outputs == [10.0, 30.0, 60.0]
    assert alg.train_step(x(5.0), zero_state(alg.train_state_spec, 1), ()).output.item() == 50.0
    assert alg.predict_step(x(5.0), state).output.item() == 110.0
    alg.set_path("here")
    assert alg._alg.path == "here"


class World(gym.Env[Any, Any]):
    observation_space = gym.spaces.Box(-10, 10, (3,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.normal(size=3).astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return self.np_random.normal(size=3).astype(np.float32), float(self.np_random.normal()), self.t == 4, False, {}


def test_an_actor_critic_made_of_parts_trains_like_the_algorithm() -> None:
    """The second example of the documentation, update by update."""

    def build(of_parts: bool) -> Any:
        torch.manual_seed(0)
        env = create_environment(World, 2, backend="sync", seed=0)
        specs: Any = dict(observation_spec=env.observation_spec, action_spec=env.action_spec)
        settings: Any = dict(env=env, config=TrainerConfig("", unroll_length=5), optimizer=SGD(lr=0.05))
        if not of_parts:
            return ActorCriticAlgorithm(**specs, **settings)
        actor = ActorDistributionNetwork(env.observation_spec, env.action_spec)
        info = ActorCriticInfo(
            reward="input.reward",
            step_type="input.step_type",
            discount="input.discount",
            action_distribution="action_dist",
            action="action",
            value="value",
        )
        alg = SequentialAlg(
            is_on_policy=True,
            value=("input.observation", ValueNetwork(env.observation_spec)),
            action_dist=("input.observation", actor),
            action=sample_action_distribution,
            loss=(info, ActorCriticLoss()),
            output="action",
        )
        return RLAlgWrapper(algorithm=alg, **specs, **settings)

    whole, parts = build(False), build(True)
    for _ in range(3):
        torch.manual_seed(1)
        assert whole.train_iter() == 10
        torch.manual_seed(1)
        assert parts.train_iter() == 10
    actor = dict(whole._actor_network.named_parameters())
    other = dict(parts._alg._modules["_module_action_dist"].named_parameters())
    assert actor.keys() == other.keys()
    for name, parameter in actor.items():
        assert torch.allclose(parameter, other[name], atol=1e-6), name


class TestWrapper:
    def test_on_policy_is_inherited(self) -> None:
        specs = (TensorSpec((3,)), BoundedTensorSpec((), torch.int64, 0, 2))
        assert RLAlgWrapper(*specs, OnPolicy()).on_policy is True
        assert RLAlgWrapper(*specs, OffPolicy()).on_policy is False
        assert RLAlgWrapper(*specs, Scale()).on_policy is None

    def test_offline_steps_of_the_wrapped_algorithm_are_used(self) -> None:
        class Offline(Scale):
            def train_step_offline(
                self, inputs: Any, state: Any, rollout_info: Any, pre_train: bool = False
            ) -> AlgStep:
                return AlgStep(info=("offline", pre_train))

            def calc_loss_offline(self, info: Any, pre_train: bool = False) -> LossInfo:
                return LossInfo(extra=("offline", pre_train))

        specs = (TensorSpec((3,)), BoundedTensorSpec((), torch.int64, 0, 2))
        for alg in (RLAlgWrapper(*specs, Offline()), EchoAlg(Offline(), TensorSpec(()))):
            assert alg.calc_loss_offline((), True).extra == ("offline", True)
        wrapper = RLAlgWrapper(*specs, Offline())
        assert wrapper.train_step_offline(x(), x(), (), True).info == ("offline", True)
        sequence = SequentialAlg(a=Offline())
        state = zero_state(sequence.train_state_spec, 1)
        assert sequence.train_step_offline(x(), state, {}, True).info["a"] == ("offline", True)
        assert sequence.calc_loss_offline({"a": x()}, True).extra["a"] == ("offline", True)


def test_a_container_saves_its_parts_once() -> None:
    shared = Scale()
    alg = SequentialAlg(a=shared, b=shared)
    assert len([key for key in alg.state_dict() if key.endswith("factor")]) == 1
    assert isinstance(alg, AlgorithmContainer)


def test_bases_say_what_they_are() -> None:
    specs: Nest = (TensorSpec((3,)), BoundedTensorSpec((), torch.int64, 0, 2), ())
    assert OnPolicyAlgorithm(*specs).on_policy is True
    assert OffPolicyAlgorithm(*specs).on_policy is False
    with pytest.raises(ValueError, match="cannot be used in a composition"):
        OnPolicyAlgorithm(*specs).set_on_policy(False)
