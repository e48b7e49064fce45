"""Hindsight experience replay: what was reached is learned from as if it had been the goal.

Andrychowicz et al. (2017), "Hindsight Experience Replay", with the strategy "future" of section 4.5: the new goal is one that
was achieved later in the same episode.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.data_structures import Experience, StepType, TimeStep
from rein.nest import Nest
from rein.replay import ReplayBuffer
from rein.specs import TensorSpec
from rein.transforms.base import DataTransformer

__all__ = ["HindsightExperienceTransformer", "l2_dist_close_reward_fn"]

_OBSERVATION = "time_step.observation"
_BATCHES_TO_CHECK = 10


@configurable
def l2_dist_close_reward_fn(achieved_goal: Tensor, goal: Tensor, threshold: float = 0.05) -> Tensor:
    """Reward 0 where the Euclidean distance of the goals is less than `threshold`, -1 elsewhere.

    Args:
        achieved_goal: [B, T, ...].
        goal: [B, T, ...].
        threshold: distance, in the units of the goals.

    Returns:
        float32 [B, T].
    """
    dtype = goal.dtype if goal.dtype.is_floating_point else torch.float32
    difference = achieved_goal.to(dtype) - goal.to(dtype)
    distance = torch.linalg.vector_norm(difference.reshape(*goal.shape[:2], -1), dim=-1)
    return -(distance >= threshold).to(torch.float32)


@configurable
class HindsightExperienceTransformer(DataTransformer):
    """Replaces the desired goal of a share of the sampled sequences by one achieved later in the same episode.

    The steps of a sequence that belong to one episode get one goal: what was achieved at a random step from the last of
    them to the end of the episode, as far as it is recorded. Their rewards are computed anew; those of FIRST steps, which no
    action earned, stay. Step types and discounts stay too. Recorded returns of relabelled sequences become
    `ReplayBuffer.default_return`, as they tell of another goal. While acting nothing changes.
    """

    reads_replay_buffer = True
    needs_replay_buffer = True
    needs_episodic_info = True

    def __init__(
        self,
        observation_spec: Nest,
        her_proportion: float = 0.8,
        achieved_goal_field: str = "time_step.observation.achieved_goal",
        desired_goal_field: str = "time_step.observation.desired_goal",
        reward_fn: Callable[[Tensor, Tensor], Tensor] = l2_dist_close_reward_fn,
    ) -> None:
        """Checks that the goals are there.

        Args:
            observation_spec: specs of the observation.
            her_proportion: chance of each sequence to be relabelled.
            achieved_goal_field: path in the experience of what was reached.
            desired_goal_field: path in the experience of the goal, of the same shape.
            reward_fn: computes rewards of the shape that is stored, [B, T] or [B, T, D], from achieved and desired goals
                [B, T, ...]. It must be the one that the environment uses.
        """
        super().__init__(observation_spec, ())
        if not 0.0 <= her_proportion <= 1.0:
            raise ValueError(f"her_proportion is {her_proportion}: give a share from 0 to 1")
        achieved = _goal_spec(observation_spec, "achieved_goal_field", achieved_goal_field)
        desired = _goal_spec(observation_spec, "desired_goal_field", desired_goal_field)
        if achieved is not None and desired is not None and _layout(achieved) != _layout(desired):
            raise ValueError(
                f"the goals do not match: {achieved_goal_field!r} is {achieved}, {desired_goal_field!r} is {desired}"
            )
        self._her_proportion = float(her_proportion)
        self._achieved_goal_field = achieved_goal_field
        self._desired_goal_field = desired_goal_field
        self._reward_fn = reward_fn
        self._num_to_check = _BATCHES_TO_CHECK

    def transform_timestep(self, timestep: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        """Returns both as they are."""
        return timestep, state

    def transform_experience(self, experience: Experience) -> Experience:
        """Relabels a share of experience [B, T, ...], with `batch_info` and `replay_buffer` set.

        Returns:
            The experience in the same order, with new goals and rewards.
        """
        buffer = self._buffer_of(experience)
        achieved = nest.get_field(experience, self._achieved_goal_field)
        desired = nest.get_field(experience, self._desired_goal_field)
        if self._num_to_check > 0:
            self._check_rewards(experience, achieved, desired)
        num_sequences = achieved.shape[0]
        chosen = (torch.rand(num_sequences, device=achieved.device) < self._her_proportion).nonzero().squeeze(1)
        if len(chosen) == 0:
            return experience
        goals = self._draw_goals(buffer, experience, chosen)
        rewards = self._compute_rewards(achieved[chosen], goals, experience.reward[chosen])
        is_first = nest.expand_dims_as(experience.step_type[chosen] == StepType.FIRST, rewards)
        rewards = torch.where(is_first, experience.reward[chosen], rewards)
        relabelled = nest.set_field(experience, self._desired_goal_field, desired.index_copy(0, chosen, goals))
        relabelled = relabelled.update_time_step_field("reward", experience.reward.index_copy(0, chosen, rewards))
        return relabelled._replace(batch_info=_without_returns(experience.batch_info, buffer, chosen))

    def _draw_goals(self, buffer: ReplayBuffer, experience: Experience, chosen: Tensor) -> Tensor:
        """What was achieved later in the episodes of the chosen sequences, [len(chosen), T, ...]."""
        info = experience.batch_info
        env_ids, start = info.env_ids[chosen][:, None], info.positions[chosen][:, None]
        last_time = _last_time_in_episode(experience.step_type[chosen])
        last = start + last_time
        steps_left = buffer.steps_to_episode_end(last, env_ids)
        # One number for each episode in a sequence: the one drawn at its last step there.
        chance = torch.rand(last.shape, dtype=torch.float64, device=last.device).gather(1, last_time)
        ahead = (chance * (steps_left + 1)).to(torch.int64)
        goals: Tensor = buffer.get_field(self._achieved_goal_field, env_ids, last + ahead)
        return goals

    def _compute_rewards(self, achieved: Tensor, desired: Tensor, stored: Tensor) -> Tensor:
        rewards = self._reward_fn(achieved, desired)
        if not isinstance(rewards, Tensor) or rewards.shape != stored.shape:
            shape = tuple(rewards.shape) if isinstance(rewards, Tensor) else type(rewards).__name__
            raise ValueError(f"reward_fn returned {shape} where the stored rewards have shape {tuple(stored.shape)}")
        return rewards.to(stored.dtype)

    def _check_rewards(self, experience: Experience, achieved: Tensor, desired: Tensor) -> None:
        """Warns if the environment rewards by another rule than `reward_fn`: relabelling would then mix two tasks."""
        self._num_to_check -= 1
        rewards = self._compute_rewards(achieved, desired, experience.reward)
        differs = ~torch.isclose(rewards, experience.reward, atol=1e-4)
        differs &= nest.expand_dims_as(experience.step_type != StepType.FIRST, rewards)
        if bool(differs.any()):
            self._num_to_check = 0
            warnings.warn(
                f"HindsightExperienceTransformer: reward_fn gives other rewards than the environment gave in "
                f"{int(differs.sum())} of {differs.numel()} sampled steps, so relabelled steps follow another rule; set "
                "HindsightExperienceTransformer.reward_fn (or its threshold) to that of the environment",
                stacklevel=3,
            )

    def _fields_read_from_buffer(self) -> tuple[str, ...]:
        return (self._achieved_goal_field, self._desired_goal_field)

    def _fields_changed(self) -> tuple[str, ...]:
        return (self._desired_goal_field, "time_step.reward")


def _goal_spec(observation_spec: Nest, name: str, path: str) -> TensorSpec | None:
    """The spec of a goal, or None if it lies outside of the observation."""
    if not path.startswith(f"{_OBSERVATION}."):
        return None
    try:
        spec = nest.get_field(observation_spec, path.removeprefix(f"{_OBSERVATION}."))
    except ValueError as error:
        raise ValueError(f"{name} is {path!r}, which the observation has not: {error}") from None
    if not isinstance(spec, TensorSpec):
        raise ValueError(f"{name} is {path!r}, which is a nest: name a tensor in it")
    return spec


def _layout(spec: TensorSpec) -> tuple[torch.Size, torch.dtype]:
    return spec.shape, spec.dtype


def _last_time_in_episode(step_type: Tensor) -> Tensor:
    """int64 [B, T]: for each step, the time of the last step of the sequence that belongs to the same episode.

    Args:
        step_type: int32 [B, T].
    """
    length = step_type.shape[1]
    times = torch.arange(length, device=step_type.device).expand(step_type.shape)
    ends = step_type == StepType.LAST
    ends[:, :-1] |= step_type[:, 1:] == StepType.FIRST
    ends[:, -1] = True
    candidates = torch.where(ends, times, length - 1)
    return candidates.flip(1).cummin(dim=1).values.flip(1)


def _without_returns(batch_info: Any, buffer: ReplayBuffer, chosen: Tensor) -> Any:
    """`batch_info` with the recorded returns of the chosen sequences marked as unknown."""
    returns = batch_info.discounted_return
    if not isinstance(returns, Tensor):
        return batch_info
    return batch_info._replace(discounted_return=returns.index_fill(0, chosen, buffer._default_return))
