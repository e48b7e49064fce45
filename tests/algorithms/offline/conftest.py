"""Networks of one weight each, and sequences by hand."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rein.data_structures import Experience, StepType, TimeStep
from rein.distributions import DiagNormal
from rein.framework import Batch, RLAlgorithm
from rein.framework.steps import time_major
from rein.framework.updating.gradients import train_info, valid_masks
from rein.networks import Network


class ProportionalActor(Network):
    """The action is a weight times the observation."""

    def __init__(self, input_tensor_spec: Any, action_spec: Any = None, weight: float = 0.5) -> None:
        super().__init__(input_tensor_spec, name="actor")
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, inputs: Tensor, state: Any = ()) -> tuple[Any, Any]:
        return self.weight * inputs, state


class NormalActor(ProportionalActor):
    """Normal around a weight times the observation, with a learnt deviation."""

    def __init__(self, input_tensor_spec: Any, action_spec: Any = None, weight: float = 0.5, std: float = 1.0) -> None:
        super().__init__(input_tensor_spec, action_spec, weight)
        self.std = nn.Parameter(torch.tensor(std))

    def forward(self, inputs: Tensor, state: Any = ()) -> tuple[Any, Any]:
        return DiagNormal(self.weight * inputs, self.std.expand(inputs.shape)), state


class LinearCritic(Network):
    """Q(s, a) = u s + v a."""

    def __init__(self, input_tensor_spec: Any, u: float = 1.0, v: float = 2.0) -> None:
        super().__init__(input_tensor_spec, name="critic")
        self.u, self.v = nn.Parameter(torch.tensor(u)), nn.Parameter(torch.tensor(v))

    def forward(self, inputs: tuple[Tensor, Tensor], state: Any = ()) -> tuple[Tensor, Any]:
        observation, action = inputs
        return (self.u * observation + self.v * action).squeeze(-1), state


class LinearValue(Network):
    """V(s) = w s."""

    def __init__(self, input_tensor_spec: Any, weight: float = 1.0) -> None:
        super().__init__(input_tensor_spec, name="value")
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, inputs: Tensor, state: Any = ()) -> tuple[Tensor, Any]:
        return (self.weight * inputs).squeeze(-1), state


class OneWeight:
    """The networks above, as a fixture can hand them out."""

    actor, normal_actor, critic, value = ProportionalActor, NormalActor, LinearCritic, LinearValue


@pytest.fixture
def one_weight() -> type[OneWeight]:
    return OneWeight


@pytest.fixture
def sequence() -> Callable[..., TimeStep]:
    """Makes time steps [B, T, ...] from lists [B][T]."""

    def make(observation: Any, reward: Any = None, discount: Any = None, step_type: Any = None) -> TimeStep:
        observation = torch.tensor(observation)
        shape = observation.shape[:2]
        return TimeStep(
            step_type=torch.full(shape, int(StepType.MID), dtype=torch.int32)
            if step_type is None
            else torch.tensor(step_type, dtype=torch.int32),
            reward=torch.zeros(shape) if reward is None else torch.tensor(reward),
            discount=torch.ones(shape) if discount is None else torch.tensor(discount),
            observation=observation,
            env_id=torch.zeros(shape, dtype=torch.int64),
        )

    return make


@pytest.fixture
def losses() -> Callable[..., Any]:
    """The infos and losses [T, B] of time steps and rollout infos [B, T, ...], as offline data."""

    def compute(algorithm: RLAlgorithm, time_step: TimeStep, rollout_info: Any) -> tuple[Any, Any]:
        experience = Experience(time_step=time_step, rollout_info=rollout_info)
        info = train_info(algorithm, Batch(experience, is_offline=True), algorithm.learning.settings)
        return info, algorithm.calc_loss_offline(info)

    return compute


@pytest.fixture
def update(losses: Any) -> Callable[..., Any]:
    """Makes one update; returns the averaged losses."""

    def make(algorithm: RLAlgorithm, time_step: TimeStep, rollout_info: Any) -> Any:
        info, loss_info = losses(algorithm, time_step, rollout_info)
        valid = valid_masks(time_major(time_step.step_type))
        averaged, _ = algorithm.update_with_gradient(loss_info, valid)
        algorithm.after_update(time_major(time_step), info)
        return averaged

    return make
