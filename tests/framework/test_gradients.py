"""The two halves of an update: by hand, of several batches, and of an algorithm elsewhere."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rein.data_structures import AlgStep, Experience, LossInfo, StepType, TimeStep
from rein.framework import Batch, Gradients, NonFiniteLossError, OffPolicyAlgorithm, TrainerConfig
from rein.optimizers import SGD
from rein.specs import BoundedTensorSpec, TensorSpec

RATE = 0.5


class Linear(OffPolicyAlgorithm):
    """The loss of a step is w * observation, so that its gradient is the observation; `unused` has none."""

    def __init__(self, **settings: Any) -> None:
        arguments = dict(whole_replay_buffer_training=False, clear_replay_buffer=False, **settings)
        super().__init__(
            TensorSpec(()),
            BoundedTensorSpec((), torch.int64, 0, 1),
            train_state_spec=(),
            optimizer=SGD(lr=RATE),
            config=TrainerConfig("", **arguments),
            name="Linear",
        )
        self.w = nn.Parameter(torch.tensor(2.0))
        self.unused = nn.Parameter(torch.tensor(7.0))
        self.updates = 0

    def train_step(self, inputs: TimeStep, state: Any, rollout_info: Any) -> AlgStep:
        return AlgStep(info={"loss": self.w * inputs.observation})

    def calc_loss(self, info: Any) -> LossInfo:
        return LossInfo(loss=info["loss"], extra={"size": info["loss"].detach()}, priority=info["loss"].detach().sum(0))

    def calc_loss_offline(self, info: Any, pre_train: bool = False) -> LossInfo:
        loss = self.calc_loss(info)
        return loss._replace(loss=10 * loss.loss)

    def after_update(self, root_inputs: Any, info: Any) -> None:
        self.updates += 1


def experience(values: list[list[float]], last: tuple[int, int] | None = None) -> Experience:
    """Observations [B, T]; the step `last` is the end of an episode."""
    observation = torch.tensor(values)
    step_type = torch.full(observation.shape, int(StepType.MID), dtype=torch.int32)
    if last is not None:
        step_type[last] = StepType.LAST
    return Experience(TimeStep(step_type=step_type, observation=observation))


def test_gradients_are_those_of_the_mean_over_valid_steps_and_nothing_moves() -> None:
    algorithm = Linear()
    gradients = algorithm.compute_gradients(experience([[1.0, 2.0], [3.0, 100.0]], last=(1, 1)))
    assert [None if one is None else one.item() for one in gradients.values] == [pytest.approx(6 / 4), None]
    assert gradients.loss_info.loss.item() == pytest.approx(2 * 6 / 4)
    assert gradients.inputs.observation.tolist() == [[1.0, 3.0], [2.0, 100.0]]
    assert algorithm.w.item() == 2.0
    assert algorithm.w.grad is None
    assert algorithm.updates == 0


def test_applying_steps_the_optimizer_and_then_says_so_once() -> None:
    algorithm = Linear()
    algorithm.apply_gradients(algorithm.compute_gradients(experience([[1.0, 2.0]])))
    assert algorithm.w.item() == pytest.approx(2.0 - RATE * 1.5)
    assert algorithm.unused.item() == 7.0
    assert algorithm.updates == 1


def test_losses_of_several_batches_are_added_and_the_update_counts_once() -> None:
    algorithm = Linear()
    batches = [Batch(experience([[1.0, 2.0]]), is_offline=True), Batch(experience([[5.0], [6.0]]))]
    assert algorithm.learning.update(batches) == 4
    assert algorithm.w.item() == pytest.approx(2.0 - RATE * (10 * 1.5 + 5.5))
    assert algorithm.updates == 1
    gradients = algorithm.compute_gradients(batches)
    assert [one.tolist() for one in gradients.priorities] == [
        pytest.approx([algorithm.w.item() * 3.0]),
        pytest.approx([algorithm.w.item() * 5.0, algorithm.w.item() * 6.0]),
    ]


def test_halves_of_a_batch_computed_elsewhere_average_to_the_whole() -> None:
    here, there = Linear(), Linear()
    values = [[1.0, 2.0], [3.0, 4.0]]
    whole = here.compute_gradients(experience(values))
    halves = [there.compute_gradients(experience([row])).values for row in values]
    averaged = [None if any(one is None for one in pair) else sum(pair) / 2 for pair in zip(*halves, strict=True)]
    assert isinstance(averaged[0], Tensor)
    assert averaged[0].item() == pytest.approx(whole.values[0].item())  # type: ignore[union-attr]
    here.apply_gradients(Gradients(averaged, whole.loss_info))
    assert here.w.item() == pytest.approx(2.0 - RATE * 2.5)


def test_a_loss_that_is_not_finite_is_refused_before_anything_moves() -> None:
    algorithm = Linear()
    with pytest.raises(NonFiniteLossError, match="the loss of Linear is nan"):
        algorithm.learning.update([Batch(experience([[float("nan"), 1.0]]))])
    assert algorithm.w.item() == 2.0
    assert algorithm.updates == 0


@pytest.mark.parametrize("offline", [False, True])
def test_offline_data_takes_the_same_way_through_sequences(offline: bool) -> None:
    """An algorithm without an offline step of its own keeps its quick form for offline data."""

    class Quick(Linear):
        def train_sequences(self, inputs: TimeStep, state: Any, rollout_info: Any) -> Any:
            self.was_quick = True
            return {"loss": self.w * inputs.observation.T}

    class Own(Quick):
        def train_step_offline(self, inputs: Any, state: Any, rollout_info: Any, pre_train: bool = False) -> AlgStep:
            return self.train_step(inputs, state, rollout_info)

    quick, own = Quick(), Own()
    for one in (quick, own):
        one.was_quick = False
        one.learning.update([Batch(experience([[1.0, 2.0]]), is_offline=offline)])
    assert quick.was_quick
    assert own.was_quick is not offline
    assert quick.w.item() == own.w.item()
