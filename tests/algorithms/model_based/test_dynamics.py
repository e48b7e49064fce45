"""Models of the dynamics: what they predict, what counts in their losses, and ensembles."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from rein.algorithms.model_based import (
    DeterministicDynamicsAlgorithm,
    DynamicsInfo,
    DynamicsState,
    StochasticDynamicsAlgorithm,
)
from rein.data_structures import StepType, TimeStep
from rein.distributions import DiagNormal
from rein.networks import DynamicsNetwork, LSTMEncodingNetwork, NestConcat, Network
from rein.networks.state import zero_state
from rein.optimizers import Adam
from rein.specs import BoundedTensorSpec, TensorSpec

FEATURE = TensorSpec((2,))
ACTION = BoundedTensorSpec((1,), torch.float32, -1, 1)
BOTH = pytest.mark.parametrize("cls", [DeterministicDynamicsAlgorithm, StochasticDynamicsAlgorithm])


class Doubling(Network):
    """Says that a feature changes by itself plus the action; a normal around that, if `std` is given."""

    def __init__(self, input_tensor_spec: Any, output_tensor_spec: Any, std: float | None = None) -> None:
        super().__init__(input_tensor_spec, name="Doubling")
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.std = std

    def forward(self, inputs: Any, state: Any = ()) -> Any:
        feature, action = inputs
        change = self.scale * feature + action
        return (change if self.std is None else DiagNormal(change, torch.full_like(change, self.std))), state

    def reset_parameters(self) -> None:
        torch.nn.init.ones_(self.scale)


def steps(observation: Any, action: Any, step_type: Any) -> TimeStep:
    return TimeStep(
        step_type=torch.tensor(step_type, dtype=torch.int32),
        observation=torch.tensor(observation),
        prev_action=torch.tensor(action),
    )


# Two environments: from (1, 2) by 0.5 the prediction is (2.5, 4.5), from (0, 1) by 0 it is (0, 2).
STATE = DynamicsState(torch.tensor([[1.0, 2.0], [0.0, 1.0]]))
STEP = steps([[2.5, 4.5], [1.0, 4.0]], [[0.5], [0.0]], [1, 1])


def doubling(std: float | None = None, replicas: int = 1) -> Any:
    cls = DeterministicDynamicsAlgorithm if std is None else StochasticDynamicsAlgorithm
    return cls(ACTION, FEATURE, num_replicas=replicas, dynamics_network_ctor=partial(Doubling, std=std))


def test_a_prediction_adds_the_change_to_the_feature_before() -> None:
    step = doubling().predict_step(STEP, STATE)
    assert step.output.tolist() == [[2.5, 4.5], [0.0, 2.0]]
    assert step.state.feature is step.output
    assert step.info == ()


def test_predictions_chain() -> None:
    model = doubling()
    once = model.predict_step(STEP, STATE)
    twice = model.predict_step(STEP, once.state)
    assert twice.output.tolist() == [[5.5, 9.5], [0.0, 4.0]]


def test_the_deterministic_loss_by_hand() -> None:
    model = doubling()
    step = model.train_step(STEP, STATE)
    assert step.output == ()
    # Half the mean over two elements of (1 - 0)^2 and (4 - 2)^2.
    assert step.info.loss.loss.tolist() == [0.0, 1.25]
    loss = model.calc_loss(DynamicsInfo(loss=step.info.loss))
    assert loss.scalar_loss.item() == 0.625
    assert loss.loss == ()


def test_the_stochastic_loss_by_hand() -> None:
    model = doubling(std=2.0)
    step = model.train_step(STEP, STATE)
    constant = 2 * torch.tensor(2.0).log() + torch.tensor(2 * torch.pi).log()
    expected = torch.stack([constant, constant + (1.0 + 4.0) / 8])
    torch.testing.assert_close(step.info.loss.loss, expected)
    torch.testing.assert_close(step.info.dist.mean, torch.tensor([[1.5, 2.5], [0.0, 1.0]]))


def test_replicas_are_summed_by_the_deterministic_and_averaged_by_the_stochastic_loss() -> None:
    one, three = doubling(), doubling(replicas=3)
    torch.testing.assert_close(
        three.train_step(STEP, STATE).info.loss.loss, 3 * one.train_step(STEP, STATE).info.loss.loss
    )
    one, three = doubling(2.0), doubling(2.0, replicas=3)
    torch.testing.assert_close(three.train_step(STEP, STATE).info.loss.loss, one.train_step(STEP, STATE).info.loss.loss)


@BOTH
@pytest.mark.parametrize("replicas", [1, 3])
def test_learning_and_acting_put_the_truth_into_the_state(cls: Any, replicas: int) -> None:
    model = cls(ACTION, FEATURE, hidden_size=4, num_replicas=replicas)
    truth = STEP.observation if replicas == 1 else STEP.observation.unsqueeze(1).expand(2, 3, 2)
    assert torch.equal(model.train_step(STEP, STATE).state.feature, truth)
    assert torch.equal(model.update_state(STEP, STATE).feature, truth)
    shape = (2,) if replicas == 1 else (3, 2)
    assert model.get_state_specs().feature == TensorSpec(shape)


@BOTH
def test_first_steps_do_not_count_and_last_steps_do(cls: Any) -> None:
    torch.manual_seed(0)
    model = cls(ACTION, FEATURE, hidden_size=4)

    def loss(step_type: int, change: float = 0.0) -> Tensor:
        time_step = STEP._replace(step_type=torch.tensor([StepType.MID, step_type], dtype=torch.int32))
        feature = STATE.feature + torch.tensor([[0.0], [change]])
        info = model.train_step(time_step, DynamicsState(feature)).info
        return model.calc_loss(info).scalar_loss

    assert loss(StepType.FIRST) == loss(StepType.FIRST, 3.0)
    assert loss(StepType.LAST) == loss(StepType.MID)
    assert loss(StepType.LAST) != loss(StepType.LAST, 3.0)
    only_first = STEP._replace(step_type=torch.zeros(2, dtype=torch.int32))
    nothing = model.calc_loss(model.train_step(only_first, STATE).info).scalar_loss
    nothing.backward()
    assert nothing == 0.0
    assert all((p.grad == 0).all() for p in model.parameters())


@BOTH
def test_replicas_differ_and_take_inputs_with_and_without_their_dimension(cls: Any) -> None:
    torch.manual_seed(0)
    model = cls(ACTION, FEATURE, hidden_size=4, num_replicas=5)
    torch.manual_seed(1)
    first = model.predict_step(STEP, STATE)
    assert first.output.shape == (2, 5, 2)
    assert len({tuple(row.tolist()) for row in first.output[0].detach()}) == 5
    wide = STEP._replace(prev_action=STEP.prev_action.unsqueeze(1).expand(2, 5, 1))
    torch.manual_seed(1)
    second = model.predict_step(wide, DynamicsState(STATE.feature.unsqueeze(1).expand(2, 5, 2)))
    torch.testing.assert_close(first.output, second.output)
    if cls is StochasticDynamicsAlgorithm:
        assert first.info.dist.mean.shape == (2, 5, 2)


def test_a_replica_of_an_ensemble_predicts_what_it_would_alone() -> None:
    torch.manual_seed(0)
    model = DeterministicDynamicsAlgorithm(ACTION, FEATURE, hidden_size=(4, 3), num_replicas=3)
    together = model.predict_step(STEP, STATE).output
    for i in range(3):
        network = model._network.replica(i)  # type: ignore[attr-defined]
        change, _ = network((STATE.feature, STEP.prev_action))
        torch.testing.assert_close(together[:, i], STATE.feature + change)


def test_no_gradient_flows_through_a_draw() -> None:
    torch.manual_seed(0)
    model = StochasticDynamicsAlgorithm(ACTION, FEATURE, hidden_size=4)
    assert not model.predict_step(STEP, STATE).output.requires_grad


def test_discrete_actions_are_one_hot_codes() -> None:
    spec = BoundedTensorSpec((), torch.int64, 2, 4)
    seen = []

    def ctor(input_tensor_spec: Any, output_tensor_spec: Any) -> DynamicsNetwork:
        seen.append(input_tensor_spec[1])
        return DynamicsNetwork(input_tensor_spec, output_tensor_spec, joint_fc_layer_params=(4,))

    model = DeterministicDynamicsAlgorithm(spec, FEATURE, num_replicas=2, dynamics_network_ctor=ctor)
    assert seen == [TensorSpec((3,))]
    codes = model.predict_step(STEP._replace(prev_action=torch.tensor([2, 4])), STATE).output
    by_hand, _ = model._network((STATE.feature, torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])))
    torch.testing.assert_close(codes, STATE.feature.unsqueeze(1) + by_hand)


@BOTH
@pytest.mark.parametrize("replicas", [1, 3])
def test_sequences_at_once_are_as_step_by_step(cls: Any, replicas: int) -> None:
    torch.manual_seed(0)
    model = cls(ACTION, FEATURE, hidden_size=4, num_replicas=replicas)
    inputs = steps(
        torch.randn(3, 4, 2).tolist(), torch.randn(3, 4, 1).tolist(), [[1, 2, 0, 1], [0, 1, 1, 1], [1, 1, 2, 0]]
    )
    state = zero_state(model.train_state_spec, 3)._replace(
        feature=torch.randn(3, *model.train_state_spec.feature.shape)
    )
    at_once = model.train_recurrent_sequences(inputs, state).loss.loss
    rows = []
    for t in range(4):
        step = model.train_step(TimeStep(*(x[:, t] if isinstance(x, Tensor) else x for x in inputs)), state)
        rows.append(step.info.loss.loss)
        state = step.state
    torch.testing.assert_close(at_once, torch.stack(rows))


def test_a_recurrent_network_keeps_its_state() -> None:
    def ctor(input_tensor_spec: Any, output_tensor_spec: Any) -> LSTMEncodingNetwork:
        return LSTMEncodingNetwork(input_tensor_spec, preprocessing_combiner=NestConcat(), hidden_size=2)

    torch.manual_seed(0)
    model = DeterministicDynamicsAlgorithm(ACTION, FEATURE, dynamics_network_ctor=ctor)
    state = zero_state(model.train_state_spec, 2)._replace(feature=STATE.feature)
    step = model.predict_step(STEP, state)
    later = model.predict_step(STEP, step.state._replace(feature=STATE.feature))
    assert not torch.equal(step.output, later.output)
    inputs = TimeStep(*(x.unsqueeze(1).expand(2, 3, *x.shape[1:]) if isinstance(x, Tensor) else x for x in STEP))
    assert model.train_recurrent_sequences(inputs, state).loss.loss.shape == (3, 2)


def test_the_deterministic_model_learns_a_simple_world() -> None:
    torch.manual_seed(0)
    model = DeterministicDynamicsAlgorithm(ACTION, TensorSpec((1,)), hidden_size=32, num_replicas=2)
    model.add_optimizer(Adam(lr=3e-3), [model._dynamics_network])
    for _ in range(400):
        feature, action = torch.randn(64, 1), 2 * torch.rand(64, 1) - 1
        step = TimeStep(torch.ones(64, dtype=torch.int32), observation=feature + 0.1 * action, prev_action=action)
        loss, _ = model.update_with_gradient(model.calc_loss(model.train_step(step, DynamicsState(feature)).info))
    assert loss.loss < 1e-4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_replicas": 0}, "num_replicas must be a positive int, got 0"),
        ({"hidden_size": (8, 0)}, "hidden_size must be a positive int, got 0"),
        ({"feature_spec": [FEATURE, FEATURE]}, "feature_spec is .* a single tensor"),
        ({"feature_spec": TensorSpec((2,), torch.int64)}, "only real numbers change"),
        ({"action_spec": {"a": ACTION}}, "action_spec is .* a single tensor"),
        ({"action_spec": BoundedTensorSpec((2,), torch.int64, 0, 3)}, "must be a single number with bounds"),
        ({"dynamics_network_ctor": partial(Doubling, std=1.0)}, "gives a distribution: use StochasticDynamics"),
        (
            {"dynamics_network_ctor": lambda **specs: DynamicsNetwork(specs["input_tensor_spec"], ACTION)},
            "must be like",
        ),
    ],
)
def test_what_cannot_be_modelled_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DeterministicDynamicsAlgorithm(**{"action_spec": ACTION, "feature_spec": FEATURE, **arguments})


def test_a_stochastic_model_needs_a_distribution() -> None:
    with pytest.raises(ValueError, match="not a distribution: use DynamicsNetwork with prob=True"):
        StochasticDynamicsAlgorithm(ACTION, FEATURE, dynamics_network_ctor=DynamicsNetwork)
