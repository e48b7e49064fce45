"""The tuples that flow between environments, algorithms and buffers.

Every field is a nest of tensors, and `()` means that there is nothing. A `TimeStep` holds what was observed at one
moment of each environment: the reward and discount that the previous action earned, and the observation that the next
action answers.
"""

import collections
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.nest import Nest
from rein.specs import BoundedTensorSpec, TensorSpec

__all__ = [
    "AlgStep",
    "BatchInfo",
    "Experience",
    "LossInfo",
    "StepType",
    "TimeStep",
    "make_experience",
    "namedtuple",
    "restart",
    "termination",
    "time_step_spec",
    "transition",
]


class StepType:
    """Where in its episode a step stands; values of `TimeStep.step_type`, int32."""

    FIRST = 0
    """First step: the observation after a reset; no action led to it."""
    MID = 1
    """Neither first nor last."""
    LAST = 2
    """Last step, by termination (discount 0) or a time limit (discount 1); the next step is FIRST."""


def namedtuple(
    typename: str,
    field_names: Sequence[str] | str,
    default_value: Any = (),
    default_values: Mapping[str, Any] | None = None,
) -> Any:
    """A NamedTuple class whose fields all have a default.

    Args:
        typename: name of the class.
        field_names: as in `collections.namedtuple`.
        default_value: default of every field; `()` means "nothing here".
        default_values: defaults of single fields, by name.
    """
    module = sys._getframe(1).f_globals.get("__name__", "__main__")
    cls: Any = collections.namedtuple(typename, field_names, module=module)  # type: ignore[misc]
    unknown = set(default_values or {}) - set(cls._fields)
    if unknown:
        raise ValueError(f"default_values names {sorted(unknown)}, which {typename} has not")
    defaults = [(default_values or {}).get(name, default_value) for name in tuple[str, ...](cls._fields)]
    cls.__new__.__defaults__ = tuple(defaults)
    return cls


class TimeStep(NamedTuple):
    """What each of B environments shows at one moment; tensors [B, ...] or [B, T, ...] or [T, B, ...]."""

    step_type: Nest = ()
    """int32, see `StepType`."""
    reward: Nest = ()
    """float32, earned by `prev_action`; a vector in the last dimension for vector rewards; 0 at FIRST."""
    discount: Nest = ()
    """float32, 0 where the episode terminated, else 1 (a time limit keeps 1)."""
    observation: Nest = ()
    """Nest of observations."""
    prev_action: Nest = ()
    """The action that led here; zeros at FIRST."""
    env_id: Nest = ()
    """int64 index of the environment."""
    untransformed: Nest = ()
    """The TimeStep before data transformers, where an algorithm asks for it."""
    env_info: Nest = ()
    """Nest of further numbers that the environment reports for metrics."""

    def is_first(self) -> Tensor:
        """Bool tensor: steps that begin an episode."""
        return self.step_type == StepType.FIRST

    def is_mid(self) -> Tensor:
        """Bool tensor: steps that neither begin nor end an episode."""
        return self.step_type == StepType.MID

    def is_last(self) -> Tensor:
        """Bool tensor: steps that end an episode, by termination or by a time limit."""
        return self.step_type == StepType.LAST


class AlgStep(NamedTuple):
    """What `predict_step`, `rollout_step` and `train_step` return."""

    output: Nest = ()
    """What the algorithm computes from its input; the action for an RL algorithm."""
    state: Nest = ()
    """Recurrent state for the next step."""
    info: Nest = ()
    """What learning needs of this step."""


class BatchInfo(NamedTuple):
    """Where a sampled batch came from; tensors [B]."""

    env_ids: Nest = ()
    """int64 index of the environment."""
    positions: Nest = ()
    """int64 ever-growing position of the first step of the sequence."""
    importance_weights: Nest = ()
    """float32 sampling probability relative to uniform sampling, under prioritized sampling."""
    replay_buffer: Nest = ()
    """The buffer that was sampled."""
    discounted_return: Nest = ()
    """[B, T] discounted return from each step to the end of its episode, where the buffer records it."""


class Experience(NamedTuple):
    """One stored step: what was seen, what was done, and what the rollout noted about it."""

    time_step: Any = ()
    """The `TimeStep` that the action answers."""
    action: Nest = ()
    """What `rollout_step` returned as output."""
    rollout_info: Nest = ()
    """`AlgStep.info` of `rollout_step`."""
    state: Nest = ()
    """Recurrent state before the step, where rollout states are stored."""
    batch_info: Any = ()
    """A `BatchInfo` once the experience was sampled."""
    replay_buffer: Nest = ()
    """The buffer that it was sampled from, for transforms that look around."""
    rollout_info_field: Nest = ()
    """Path of `rollout_info` in what the buffer stores."""

    @property
    def step_type(self) -> Tensor:
        """`time_step.step_type`."""
        return self.time_step.step_type

    @property
    def reward(self) -> Tensor:
        """`time_step.reward`."""
        return self.time_step.reward

    @property
    def discount(self) -> Tensor:
        """`time_step.discount`."""
        return self.time_step.discount

    @property
    def observation(self) -> Nest:
        """`time_step.observation`."""
        return self.time_step.observation

    @property
    def prev_action(self) -> Nest:
        """`time_step.prev_action`."""
        return self.time_step.prev_action

    @property
    def env_id(self) -> Tensor:
        """`time_step.env_id`."""
        return self.time_step.env_id

    def is_first(self) -> Tensor:
        """Bool tensor: steps that begin an episode."""
        return self.time_step.is_first()

    def is_mid(self) -> Tensor:
        """Bool tensor: steps that neither begin nor end an episode."""
        return self.time_step.is_mid()

    def is_last(self) -> Tensor:
        """Bool tensor: steps that end an episode."""
        return self.time_step.is_last()

    def update_time_step_field(self, field: str, value: Nest) -> "Experience":
        """A copy with the part of `time_step` at a dotted path replaced."""
        return self._replace(time_step=nest.set_field(self.time_step, field, value))


class LossInfo(NamedTuple):
    """What `calc_loss` returns."""

    loss: Nest = ()
    """[T, B] loss of each step, or [B]; `()` if there is none."""
    scalar_loss: Nest = ()
    """A loss that is one number already; added to the mean of `loss`."""
    extra: Nest = ()
    """Nest of numbers for summaries."""
    priority: Nest = ()
    """[B] new priority of each sampled sequence."""
    gns: Nest = ()
    """Loss whose gradient noise scale is to be summarized."""


def make_experience(time_step: TimeStep, alg_step: AlgStep, state: Nest) -> Experience:
    """The `Experience` of one rollout step.

    Args:
        time_step: what was seen.
        alg_step: what `rollout_step` answered.
        state: recurrent state before that step.
    """
    return Experience(time_step=time_step, action=alg_step.output, rollout_info=alg_step.info, state=state)


def restart(observation: Nest, action_spec: Nest, reward_spec: TensorSpec = TensorSpec(())) -> TimeStep:
    """The FIRST step of B episodes: reward 0, discount 1, previous action zero.

    Args:
        observation: nest of tensors [B, ...].
        action_spec: nest of specs of the action.
        reward_spec: spec of the reward, a scalar or a vector.
    """
    batch = (nest.get_nest_batch_size(observation),)
    return TimeStep(
        step_type=torch.full(batch, StepType.FIRST, dtype=torch.int32),
        reward=reward_spec.zeros(batch),
        discount=torch.ones(batch),
        observation=observation,
        prev_action=nest.map_structure(lambda spec: spec.zeros(batch), action_spec),
        env_id=torch.arange(batch[0]),
    )


def transition(
    observation: Nest,
    prev_action: Nest,
    reward: Tensor,
    discount: Tensor | float = 1.0,
    is_last: Tensor | bool = False,
) -> TimeStep:
    """A MID step of B episodes, LAST where `is_last`.

    Args:
        observation: nest of tensors [B, ...].
        prev_action: the action that led here.
        reward: [B] or [B, D].
        discount: [B] or one number for all.
        is_last: [B] or one truth for all; with discount 1, a time limit.
    """
    batch = (nest.get_nest_batch_size(observation),)
    last = torch.as_tensor(is_last).expand(batch)
    return TimeStep(
        step_type=torch.where(last, StepType.LAST, StepType.MID).to(torch.int32),
        reward=reward,
        discount=torch.as_tensor(discount, dtype=torch.float32).expand(batch),
        observation=observation,
        prev_action=prev_action,
        env_id=torch.arange(batch[0]),
    )


def termination(observation: Nest, prev_action: Nest, reward: Tensor) -> TimeStep:
    """The LAST step of B episodes that terminated: discount 0."""
    return transition(observation, prev_action, reward, discount=0.0, is_last=True)


def time_step_spec(
    observation_spec: Nest,
    action_spec: Nest,
    reward_spec: TensorSpec = TensorSpec(()),
    env_info_spec: Nest = (),
) -> TimeStep:
    """The specs of a `TimeStep`, in a `TimeStep`."""
    return TimeStep(
        step_type=BoundedTensorSpec((), torch.int32, StepType.FIRST, StepType.LAST),
        reward=reward_spec,
        discount=BoundedTensorSpec((), torch.float32, 0, 1),
        observation=observation_spec,
        prev_action=action_spec,
        env_id=TensorSpec((), torch.int64),
        env_info=env_info_spec,
    )
