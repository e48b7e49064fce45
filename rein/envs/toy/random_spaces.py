"""Random nested spaces, and a world over them that fuzzes everything between agent and environment."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.drawing import Frame, bar_chart
from rein.envs.sampling import sample_space
from rein.envs.toy.world import ToyWorld, scalar_info_space

_MAX_CHILDREN = 3
_LARGEST_BOUND = 5


def random_space(rng: np.random.Generator, max_depth: int = 2, kind: str = "observation") -> Any:
    """Returns a random Gymnasium space, nested up to `max_depth` levels of Dict and Tuple.

    Args:
        rng: decides everything.
        max_depth: 0 gives a single leaf.
        kind: "observation" leaves may be images, integers of several widths, and vectors; "action" leaves
            are what agents can act with (Discrete, MultiDiscrete, MultiBinary, bounded float Box).
    """
    if max_depth > 0 and rng.random() < 0.6:
        children = [random_space(rng, max_depth - 1, kind) for _ in range(int(rng.integers(1, _MAX_CHILDREN + 1)))]
        if rng.random() < 0.5:
            return spaces.Tuple(children)
        return spaces.Dict({f"part_{index}": child for index, child in enumerate(children)})
    makers = _ACTION_LEAVES if kind == "action" else _OBSERVATION_LEAVES
    return makers[int(rng.integers(len(makers)))](rng)


def checksum(value: Any) -> float:
    """Returns a number in [-1, 1) that changes with every leaf of a nested action."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple):
        total = sum((index + 1) * checksum(child) for index, child in enumerate(value))
    else:
        flat = np.asarray(value, np.float64).ravel()
        total = float(np.sum(flat * (1.0 + 0.1 * np.arange(flat.size))))
    return (total + 1.0) % 2.0 - 1.0


@configurable
class RandomSpacesEnv(ToyWorld[Any, Any]):
    """Has random nested spaces, and rewards that reveal whether actions arrive intact.

    The spaces depend on `spaces_seed` alone. Observations come from the space by `np_random`; the reward is
    `checksum(action)` (repeated for a vector reward), so a trajectory is a pure function of the reset
    seed and the actions. Episodes terminate or are truncated at random, each with probability
    `end_probability`. An action outside the space raises.

    Args:
        spaces_seed: decides observation and action space.
        max_depth: levels of nesting.
        reward_dim: 0 for a scalar reward, otherwise the size of the reward vector.
        end_probability: per step, of terminating, and again of being truncated.
        render_mode: see `ToyWorld`.
    """

    def __init__(
        self,
        spaces_seed: int = 0,
        max_depth: int = 2,
        reward_dim: int = 0,
        end_probability: float = 0.05,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        rng = np.random.default_rng(spaces_seed)
        self.observation_space = random_space(rng, max_depth, "observation")
        self.action_space = random_space(rng, max_depth, "action")
        self.reward_dim = reward_dim
        if reward_dim > 0:
            self.reward_space = gym.spaces.Box(-1.0, 1.0, (reward_dim,), np.float32)
        self.env_info_space = scalar_info_space("last_reward")
        self.end_probability = end_probability
        self._last_reward = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Returns a random observation."""
        super().reset(seed=seed)
        self._last_reward = 0.0
        return sample_space(self.observation_space, self.np_random), self._info()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Returns a random observation and the checksum of the action."""
        self._check_action(action)
        self._last_reward = checksum(action)
        reward: float | NDArray[np.float32] = self._last_reward
        if self.reward_dim > 0:
            reward = np.full(self.reward_dim, self._last_reward, np.float32)
        observation = sample_space(self.observation_space, self.np_random)
        ends = self.np_random.random(2) < self.end_probability
        return observation, reward, bool(ends[0]), bool(ends[1] and not ends[0]), self._info()

    def _info(self) -> dict[str, Any]:
        return {"last_reward": np.float32(self._last_reward)}

    def _draw(self) -> Frame:
        return bar_chart(np.array([self._last_reward, 1.0]), 0)


def _shape(rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(size) for size in rng.integers(1, 5, int(rng.integers(0, 4))))


def _float_box(rng: np.random.Generator) -> spaces.Box:
    dtype = np.float32 if rng.random() < 0.7 else np.float64
    bounded = rng.random() < 0.5
    bound = float(rng.integers(1, _LARGEST_BOUND)) if bounded else np.inf
    return spaces.Box(-bound, bound, _shape(rng), dtype)  # type: ignore[arg-type]


def _image(rng: np.random.Generator) -> spaces.Box:
    return spaces.Box(0, 255, (int(rng.integers(1, 4)), 5, 4), np.uint8)


def _integer_box(rng: np.random.Generator) -> spaces.Box:
    dtype = (np.int8, np.int32, np.int64)[int(rng.integers(3))]
    return spaces.Box(-int(rng.integers(0, 9)), int(rng.integers(1, 9)), _shape(rng), dtype)  # type: ignore[arg-type]


def _discrete(rng: np.random.Generator) -> spaces.Discrete:
    return spaces.Discrete(int(rng.integers(2, 7)))


def _discrete_from_start(rng: np.random.Generator) -> spaces.Discrete:
    return spaces.Discrete(int(rng.integers(2, 7)), start=int(rng.integers(-2, 4)))


def _multi_discrete(rng: np.random.Generator) -> spaces.MultiDiscrete:
    return spaces.MultiDiscrete(rng.integers(2, 6, int(rng.integers(1, 4))))


def _multi_binary(rng: np.random.Generator) -> spaces.MultiBinary:
    return spaces.MultiBinary(int(rng.integers(1, 5)))


def _action_box(rng: np.random.Generator) -> spaces.Box:
    low = rng.uniform(-3.0, 0.0, int(rng.integers(1, 4))).astype(np.float32)
    return spaces.Box(low, low + 2.0, dtype=np.float32)


_OBSERVATION_LEAVES: tuple[Callable[[np.random.Generator], spaces.Space[Any]], ...] = (
    _float_box,
    _float_box,
    _image,
    _integer_box,
    _discrete,
    _discrete_from_start,
    _multi_discrete,
    _multi_binary,
)
_ACTION_LEAVES: tuple[Callable[[np.random.Generator], spaces.Space[Any]], ...] = (
    _discrete,
    _discrete_from_start,
    _multi_discrete,
    _multi_binary,
    _action_box,
    _action_box,
)
