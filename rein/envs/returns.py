"""What worlds may return: flags that are true or false, rewards that are numbers, observations inside their spaces."""

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rein.envs.leaves import InvalidReturnError, Leaf

__all__ = ["Bounds", "checked_flag", "checked_reward", "describe_result", "shown"]

logger = logging.getLogger("rein.envs")

_SMALL = 8192
"""Elements of a batch of observations up to which every step is compared with its bounds; larger ones now and then."""
_SOMETIMES = 32


def shown(value: Any) -> str:
    """A value for a message: on one line, and not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 120 else text[:117] + "..."


def describe_result(method: str, result: Any) -> str:
    """Why something is not what a method of a world must return."""
    wanted = "(observation, info)"
    if method == "step":
        wanted = "(observation, reward, terminated, truncated, info)"
    what = f"a tuple of {len(result)}" if isinstance(result, tuple) else f"{type(result).__name__} {shown(result)}"
    return f"{method}() returned {what}: return {wanted}, or wrap worlds of the old interface"


def checked_flag(name: str, value: Any) -> bool:
    """`terminated` or `truncated` as a bool.

    Raises:
        InvalidReturnError: it is something else than true or false.
    """
    array = np.asarray(value)
    if array.shape == () and array.dtype.kind in "biu" and int(array) in (0, 1):
        return bool(array)
    raise InvalidReturnError(f"{name} is {shown(value)} of type {type(value).__name__}: return True or False")


def checked_reward(reward: Any, shape: tuple[int, ...]) -> Any:
    """A reward as a number, or an array of `shape`.

    Raises:
        InvalidReturnError: it is no number, or not as many as it should be.
    """
    try:
        value = np.asarray(reward)
    except ValueError as error:
        raise InvalidReturnError(f"reward is {shown(reward)}: {error}") from error
    if value.dtype.kind not in "biuf":
        kind = type(reward).__name__
        raise InvalidReturnError(f"reward is {shown(reward)} of type {kind}: return a number such as 1.0")
    if shape == () and value.size == 1:
        return value.item()
    if value.shape != shape:
        fix = "return one number" if shape == () else f"its space says {shape}"
        raise InvalidReturnError(f"reward has shape {value.shape}: {fix}")
    return value.astype(np.float32, copy=False)


class Bounds:
    """The least and greatest values of one array of an observation."""

    def __init__(self, leaf: Leaf, position: int, what: str, policy: str) -> None:
        """Compares nothing yet.

        Args:
            leaf: has `low` and `high`.
            position: of the array among those of the observation.
            what: to call it in messages.
            policy: "warn", "clip" or "raise", for what is outside of a Box; a choice that there is not is always a fault.
        """
        self.position = position
        self._low, self._high = leaf.low, leaf.high
        self._is_choice = leaf.is_choice
        self._what = what
        self._policy = policy
        self._has_warned = False

    def are_left(self, array: NDArray, tick: int) -> bool:
        """Whether some row of a batch [B, ...] has to be looked at."""
        if not self._is_choice:
            if self._policy == "warn" and self._has_warned:
                return False
            if array.size > _SMALL and tick > _SOMETIMES and tick % _SOMETIMES:
                return False
        return bool((array < self._low).any() or (array > self._high).any())

    def require(self, array: NDArray, row: int, env_id: int, tick: int) -> None:
        """Sees to it that one row is inside, as far as the policy asks for it.

        Raises:
            InvalidReturnError: it is outside, and that is a fault.
        """
        value = array[row]
        outside = (value < self._low) | (value > self._high)
        if not outside.any():
            return
        low, high = (np.broadcast_to(one, value.shape)[outside].flat[0] for one in (self._low, self._high))
        found = np.asarray(value)[outside].flat[0]
        message = f"{self._what} holds {found}, outside of its space ({low:.6g} to {high:.6g})"
        if self._is_choice or self._policy == "raise":
            raise InvalidReturnError(f"{message}: correct the world, or its observation_space")
        if self._policy == "clip":
            array[row] = np.clip(value, self._low, self._high)
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "environment %d, step %d: %s. It is %s, and this is not said again: correct observation_space, or set "
                'create_environment.out_of_bounds="clip" or "raise"',
                env_id,
                tick,
                message,
                "clipped" if self._policy == "clip" else "passed on",
            )
