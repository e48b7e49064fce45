"""What a data transformer does to a rollout whose steps are arrays on the host.

There the policy needs only the observation of each step before the next one comes. Everything else can wait, and be
transformed for all steps at once.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from numpy.typing import NDArray
from torch import Tensor

from rein.runtime.shortcuts import does_otherwise

__all__ = ["HostTransform", "in_turn", "transforms_otherwise"]

ObservationTransform: TypeAlias = Callable[[NDArray[Any], NDArray[Any], bool], None]
"""Called as ``transform(observation, out, keep)`` with arrays [B, ...] of one dtype and shape, which may be the same array;
without `keep` the step will come again, and statistics do not take it in."""


class HostTransform(NamedTuple):
    """Does what `transform_timestep` does, where that concerns a single observation and the reward only."""

    observation: ObservationTransform | None = None
    """For each step as it comes; None: observations stay as they are."""
    reward: Callable[[Tensor], Tensor] | None = None
    """For rewards [..., B] or [..., B, N] of any number of steps, each by itself; None: rewards stay as they are."""


def transforms_otherwise(cls: type) -> bool:
    """Whether a class below the one that has `_host_transform` transforms time steps in another way than that.

    Args:
        cls: of the transformer.
    """
    return does_otherwise(cls, "_host_transform", _TRANSFORMING)


_TRANSFORMING = ("transform_timestep", "forward", "_transform", "_update")


def in_turn(transforms: Sequence[HostTransform]) -> HostTransform:
    """One transform that does what several do in order."""
    observation = [one.observation for one in transforms if one.observation is not None]
    reward = [one.reward for one in transforms if one.reward is not None]
    return HostTransform(
        observation[0] if len(observation) == 1 else _observations_in_turn(observation),
        reward[0] if len(reward) == 1 else _rewards_in_turn(reward),
    )


def _observations_in_turn(transforms: Sequence[ObservationTransform]) -> ObservationTransform | None:
    if not transforms:
        return None

    def transform(observation: NDArray[Any], out: NDArray[Any], keep: bool) -> None:
        transforms[0](observation, out, keep)
        for one in transforms[1:]:
            one(out, out, keep)

    return transform


def _rewards_in_turn(transforms: Sequence[Callable[[Tensor], Tensor]]) -> Callable[[Tensor], Tensor] | None:
    if not transforms:
        return None

    def transform(reward: Tensor) -> Tensor:
        for one in transforms:
            reward = one(reward)
        return reward

    return transform
