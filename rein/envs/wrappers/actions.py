"""Wrappers that change what an agent may do."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rein.config import configurable

Pair = tuple[int, NDArray[np.float32]]


@configurable
class ClipAction(gym.wrappers.ClipAction[Any, Any, Any]):
    """Accepts any real vector and clips it to the bounds of the world's Box action space."""


@configurable
class RescaleAction(gym.wrappers.RescaleAction[Any, Any, Any]):
    """Offers a Box between `min_action` and `max_action` and scales it to the world's bounds."""


@configurable
class DiscretizeAction(gym.wrappers.DiscretizeAction[Any, Any, Any]):
    """Offers the centers of `bins` equal intervals per dimension in place of a bounded Box."""


@configurable
class TransformAction(gym.wrappers.TransformAction[Any, Any, Any]):
    """Applies `func` to every action; `action_space` describes what the agent gives."""


@configurable
class DiscreteContinuousAction(gym.ActionWrapper[Any, Pair, Any], gym.utils.RecordConstructorArgs):
    """Offers the pair (choice, amounts), that is `Tuple(Discrete, Box)`, and combines it into an action.

    Without `combine` the world must have a flat bounded Box: the choice names the one dimension that
    takes its value from the amounts, every other dimension gets the value nearest to 0.

    Args:
        env: the world to wrap.
        num_choices: choices of the discrete part; default one per dimension of the Box.
        amounts: space of the continuous part; default the world's Box.
        combine: gives the world's action for (choice, amounts).
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        num_choices: int | None = None,
        amounts: spaces.Box | None = None,
        combine: Callable[[int, NDArray[np.float32]], Any] | None = None,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, num_choices=num_choices, amounts=amounts, combine=combine)
        gym.ActionWrapper.__init__(self, env)
        inner = env.action_space
        flat = isinstance(inner, spaces.Box) and len(inner.shape) == 1
        if not flat and (combine is None or num_choices is None or amounts is None):
            raise ValueError(f"The action space {inner} is no flat Box: pass num_choices, amounts and combine.")
        self._combine = combine
        if isinstance(inner, spaces.Box):
            amounts = inner if amounts is None else amounts
            num_choices = int(inner.shape[0]) if num_choices is None else num_choices
            self._rest = np.clip(np.zeros(inner.shape, inner.dtype), inner.low, inner.high)
        if combine is None and num_choices != inner.shape[0]:  # type: ignore[index]
            raise ValueError(
                f"num_choices={num_choices}, but {inner} has {inner.shape[0]} dimensions: "  # type: ignore[index]
                "pass `combine` to say what each choice does."
            )
        assert num_choices is not None
        assert amounts is not None
        self.action_space: Any = spaces.Tuple((spaces.Discrete(num_choices), amounts))

    def action(self, action: Pair) -> Any:
        """Returns the world's action for a pair."""
        choice, amounts = int(action[0]), action[1]
        if self._combine is not None:
            return self._combine(choice, amounts)
        combined = self._rest.copy()
        combined[choice] = amounts[choice]
        return combined


@configurable
class ParameterizedAction(gym.ActionWrapper[Any, Pair, Any], gym.utils.RecordConstructorArgs):
    """Offers `Tuple(Discrete, Box)` for a world with one parameter Box per choice.

    Such worlds take `Tuple(Discrete(n), Tuple(Box, ..., Box))`, as Hausknecht & Stone (2016) describe
    parameterized actions. The Box offered here is all the parameters one after the other, rescaled to
    [-1, 1].

    Args:
        env: the world to wrap.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.ActionWrapper.__init__(self, env)
        inner = env.action_space
        if not (
            isinstance(inner, spaces.Tuple)
            and len(inner.spaces) == 2
            and isinstance(inner.spaces[0], spaces.Discrete)
            and isinstance(inner.spaces[1], spaces.Tuple)
            and all(isinstance(box, spaces.Box) for box in inner.spaces[1].spaces)
        ):
            raise ValueError(f"ParameterizedAction needs Tuple(Discrete, Tuple(Box, ...)); got {inner}.")
        self._boxes: list[Any] = list(inner.spaces[1].spaces)
        for index, box in enumerate(self._boxes):
            if not box.is_bounded():
                raise ValueError(f"The parameters of choice {index} are not bounded: {box}.")
        self._ends = np.cumsum([int(np.prod(box.shape)) for box in self._boxes])
        amounts = spaces.Box(-1.0, 1.0, (int(self._ends[-1]),), np.float32)
        self.action_space: Any = spaces.Tuple((inner.spaces[0], amounts))

    def action(self, action: Pair) -> Any:
        """Returns (choice, one array per choice), each within the bounds of its Box."""
        choice, amounts = action
        parts = np.split(np.asarray(amounts, np.float64), self._ends[:-1])
        parameters = tuple(self._rescale(part, box) for part, box in zip(parts, self._boxes, strict=True))
        return choice, parameters

    @staticmethod
    def _rescale(part: NDArray[np.float64], box: spaces.Box) -> NDArray[Any]:
        share = (part.reshape(box.shape) + 1.0) / 2.0
        value = box.low + share * (box.high.astype(np.float64) - box.low)
        return np.clip(value, box.low, box.high).astype(box.dtype)
