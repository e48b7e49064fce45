"""Algorithms that see whole sequences, and weights of vector rewards."""

from typing import Any

import pytest
import torch

from rein.data_structures import AlgStep, Experience, LossInfo, TimeStep
from rein.framework import Batch, OffPolicyAlgorithm, TrainerConfig
from rein.framework.updating.gradients import train_info
from rein.specs import BoundedTensorSpec, TensorSpec


class Recorder(OffPolicyAlgorithm):
    """Notes the shapes that it is called with."""

    def __init__(self, **kwargs: Any) -> None:
        arguments = {"train_state_spec": (), "config": TrainerConfig(root_dir=""), **kwargs}
        super().__init__(TensorSpec((1,)), BoundedTensorSpec((), torch.int64, 0, 1), **arguments)
        self.calls: list[Any] = []

    def train_step(self, inputs: TimeStep, state: Any, rollout_info: Any) -> AlgStep:
        self.calls.append(("step", tuple(inputs.reward.shape)))
        return AlgStep(state=state, info={"reward": inputs.reward, "extra": rollout_info})

    def calc_loss(self, info: Any) -> LossInfo:
        self.calls.append(("loss", tuple(info["reward"].shape)))
        return LossInfo(loss=info["reward"])


class WholeSequences(Recorder):
    """Sees sequences as they are."""

    def train_sequences(self, inputs: TimeStep, state: Any, rollout_info: Any) -> Any:
        self.calls.append(("sequences", tuple(inputs.reward.shape)))
        return {"reward": inputs.reward.T}


def batch() -> Experience:
    reward = torch.arange(6.0).reshape(2, 3)
    return Experience(TimeStep(torch.ones(2, 3, dtype=torch.int32), reward), rollout_info=10.0 * reward)


def test_by_default_all_steps_go_through_one_train_step() -> None:
    algorithm = Recorder()
    info = train_info(algorithm, Batch(batch()), algorithm.learning.settings)
    assert algorithm.calls == [("step", (6,))]
    assert torch.equal(info["reward"], batch().reward.T)
    assert torch.equal(info["extra"], 10.0 * batch().reward.T)


def test_an_algorithm_may_take_the_sequences_itself() -> None:
    algorithm = WholeSequences()
    algorithm.learning.update([Batch(batch())])
    assert algorithm.calls == [("sequences", (2, 3)), ("loss", (3, 2))]


def test_recurrent_states_go_step_by_step() -> None:
    recurrent = WholeSequences(train_state_spec=TensorSpec((1,)))
    train_info(recurrent, Batch(batch()), recurrent.learning.settings)
    assert recurrent.calls == [("step", (2,))] * 3


def test_weights_of_a_vector_reward_are_kept_and_can_be_changed() -> None:
    algorithm = Recorder(reward_spec=TensorSpec((2,)), reward_weights=[1, -2])
    assert algorithm.reward_weights.tolist() == [1.0, -2.0]
    assert "_reward_weights" in algorithm.state_dict()
    algorithm.set_reward_weights(torch.tensor([0.5, 0.0]))
    assert algorithm.reward_weights.tolist() == [0.5, 0.0]
    assert Recorder(reward_spec=TensorSpec((2,))).reward_weights.tolist() == [1.0, 1.0]
    scalar = Recorder()
    assert scalar.reward_weights is None
    assert "_reward_weights" not in scalar.state_dict()
    with pytest.raises(ValueError, match="no weights"):
        scalar.set_reward_weights(torch.ones(1))
