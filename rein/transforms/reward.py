"""Transformers of the reward; each can also be called as a function of a reward, for reward shaping.

A vector reward is transformed element by element, each in the same way; `FunctionalRewardTransformer` can treat its
elements differently.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rein.config import configurable
from rein.data_structures import TimeStep
from rein.nest import Nest
from rein.specs import TensorSpec
from rein.statistics import AdaptiveNormalizer, Normalizer
from rein.transforms.base import SimpleDataTransformer
from rein.transforms.host import HostTransform
from rein.transforms.running import FollowsData

__all__ = [
    "FunctionalRewardTransformer",
    "RewardClipping",
    "RewardNormalizer",
    "RewardScaling",
    "RewardShifting",
    "RewardTransformer",
]


class RewardTransformer(SimpleDataTransformer):
    """Base of the transformers of the reward; a subclass defines `forward`."""

    def __init__(self, observation_spec: Nest) -> None:
        """Keeps the spec.

        Args:
            observation_spec: specs of the observation, which stays as it is.
        """
        super().__init__(observation_spec)

    def forward(self, reward: Tensor) -> Tensor:
        """The transformed reward.

        Args:
            reward: any batch dimensions, and one more for a vector reward.
        """
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def _transform(self, time_step: TimeStep) -> TimeStep:
        return time_step._replace(reward=self.forward(time_step.reward))


@configurable
class FunctionalRewardTransformer(RewardTransformer):
    """Transforms the reward by a given function."""

    def __init__(self, func: Callable[[Tensor], Tensor], observation_spec: Nest = ()) -> None:
        """Keeps the function.

        Args:
            func: takes a reward with any batch dimensions and returns the new one; it must not change it in place.
            observation_spec: specs of the observation, which stays as it is.
        """
        super().__init__(observation_spec)
        if not callable(func):
            raise TypeError(f"func is {func!r}: give a function of the reward")
        self._func = func

    def forward(self, reward: Tensor) -> Tensor:
        """What the function makes of the reward."""
        return self._func(reward)


@configurable
class RewardClipping(RewardTransformer):
    """Limits rewards to a range."""

    def __init__(self, observation_spec: Nest = (), minmax: Sequence[float] = (-1, 1)) -> None:
        """Keeps the range.

        Args:
            observation_spec: specs of the observation, which stays as it is.
            minmax: smallest and largest reward.
        """
        super().__init__(observation_spec)
        if len(minmax) != 2 or not minmax[0] <= minmax[1]:
            raise ValueError(f"minmax is {minmax!r}: give the smallest and the largest reward")
        self._minmax = (minmax[0], minmax[1])

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"minmax": self._minmax}

    def forward(self, reward: Tensor) -> Tensor:
        """The reward within the range."""
        return reward.clamp(*self._minmax)

    def _host_transform(self) -> HostTransform | None:
        return HostTransform(reward=self.forward)


@configurable
class RewardScaling(RewardTransformer):
    """Multiplies rewards by a number."""

    def __init__(self, scale: float, observation_spec: Nest = ()) -> None:
        """Keeps the number.

        Args:
            scale: factor.
            observation_spec: specs of the observation, which stays as it is.
        """
        super().__init__(observation_spec)
        self._scale = float(scale)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"scale": self._scale}

    def forward(self, reward: Tensor) -> Tensor:
        """`scale` times the reward."""
        return reward * self._scale

    def _host_transform(self) -> HostTransform | None:
        return HostTransform(reward=self.forward)


@configurable
class RewardShifting(RewardTransformer):
    """Adds a number to rewards."""

    def __init__(self, bias: float, observation_spec: Nest = ()) -> None:
        """Keeps the number.

        Args:
            bias: what is added.
            observation_spec: specs of the observation, which stays as it is.
        """
        super().__init__(observation_spec)
        self._bias = float(bias)

    def forward(self, reward: Tensor) -> Tensor:
        """The reward plus `bias`."""
        return reward + self._bias

    def _host_transform(self) -> HostTransform | None:
        return HostTransform(reward=self.forward)


@configurable
class RewardNormalizer(FollowsData, RewardTransformer):
    """Shifts and scales rewards to mean 0 and deviation 1 by running statistics, each element of a vector by its own."""

    _num_updates: Tensor

    def __init__(
        self,
        observation_spec: Nest = (),
        normalizer: Normalizer | None = None,
        update_max_calls: int = 0,
        clip_value: float = -1.0,
        update_mode: str = "replay",
        reward_spec: TensorSpec = TensorSpec(()),
    ) -> None:
        """Starts without data; until then rewards stay as they are.

        Args:
            observation_spec: specs of the observation, which stays as it is.
            normalizer: the statistics, which from now on take in data only as told here; None makes an
                `AdaptiveNormalizer` for the spec of the reward.
            update_max_calls: if > 0, the statistics take in only so many batches, then stay.
            clip_value: if > 0, normalized rewards are limited to [-clip_value, clip_value].
            update_mode: what the statistics follow: "replay" (the data that is learned from) or "rollout" (each step when
                it is new).
            reward_spec: spec of the reward; `set_reward_spec` tells it later. Not used if `normalizer` is given.
        """
        super().__init__(observation_spec)
        self._set_update_mode(update_mode, ("replay", "rollout"))
        if update_max_calls < 0:
            raise ValueError(f"update_max_calls is {update_max_calls}: give 0 for no limit, or the number of batches")
        self._update_max_calls = int(update_max_calls)
        self._clip_value = float(clip_value)
        self._reward_spec: TensorSpec | None = None
        self.register_buffer("_num_updates", torch.zeros((), dtype=torch.int64))
        if normalizer is None:
            self._reward_spec = reward_spec
            self._normalizer: Normalizer = AdaptiveNormalizer(reward_spec, auto_update=False, name="RewardNormalizer")
        else:
            if not isinstance(normalizer, Normalizer):
                raise TypeError(f"normalizer is {normalizer!r}: give one from rein.statistics, or None")
            normalizer._auto_update = False
            self._normalizer = normalizer

    @property
    def normalizer(self) -> Normalizer:
        """The running statistics."""
        return self._normalizer

    @property
    def clip_value(self) -> float:
        """Limit of normalized rewards; none if not above 0."""
        return self._clip_value

    def set_reward_spec(self, reward_spec: TensorSpec) -> None:
        """Starts anew with statistics for `reward_spec`, unless it is the one known, or the normalizer was given."""
        if self._reward_spec is None or reward_spec.shape == self._reward_spec.shape:
            return
        if int(self._num_updates) > 0:
            raise ValueError(f"RewardNormalizer already follows rewards like {self._reward_spec}, not {reward_spec}")
        self._reward_spec = reward_spec
        normalizer = AdaptiveNormalizer(reward_spec, auto_update=False, name="RewardNormalizer")
        self._normalizer = normalizer.to(self._num_updates.device)

    def forward(self, reward: Tensor) -> Tensor:
        """The normalized reward; in training mode the statistics take it in first, whatever `update_mode` says.

        Args:
            reward: any batch dimensions, and one more for a vector reward.
        """
        if self.training:
            self._take_in(reward)
        return self._normalize(reward)

    def _take_in(self, reward: Tensor) -> None:
        if self._update_max_calls == 0 or int(self._num_updates) < self._update_max_calls:
            self._num_updates += 1
            self._normalizer.update(reward)

    def _normalize(self, reward: Tensor) -> Tensor:
        normalized: Tensor = self._normalizer.normalize(reward, self._clip_value)
        return normalized

    def _update(self, time_step: TimeStep) -> None:
        if self._reward_spec is not None and time_step.reward.ndim != time_step.step_type.ndim + self._reward_spec.ndim:
            raise ValueError(
                f"RewardNormalizer expects rewards like {self._reward_spec}, but got shape {tuple(time_step.reward.shape)} "
                f"for {tuple(time_step.step_type.shape)} steps: give it the reward_spec of the environment"
            )
        self._take_in(time_step.reward)

    def _transform(self, time_step: TimeStep) -> TimeStep:
        return time_step._replace(reward=self._normalize(time_step.reward))
