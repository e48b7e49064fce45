"""One-decision worlds: repeat what you see, and a contextual bandit."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.drawing import Frame, bar_chart
from rein.envs.toy.world import ToyWorld

FloatArray = NDArray[np.float32]


@configurable
class IdentityEnv(ToyWorld[FloatArray, int]):
    """Rewards the agent with 1 for naming the value that it is shown, and 0 otherwise.

    The observation is a one-hot float vector; every step shows a new uniform value. The best return
    is `episode_length`, a uniformly random agent earns `episode_length / num_values`.

    Args:
        num_values: how many values there are, and actions.
        episode_length: in steps; the episode then terminates.
        render_mode: see `ToyWorld`.
    """

    def __init__(self, num_values: int = 4, episode_length: int = 10, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.num_values = num_values
        self.episode_length = episode_length
        self.observation_space = gym.spaces.Box(0.0, 1.0, (num_values,), np.float32)
        self.action_space = gym.spaces.Discrete(num_values)
        self._value = 0
        self._steps = 0

    @property
    def optimal_return(self) -> float:
        """Undiscounted return of the best policy."""
        return float(self.episode_length)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Starts an episode with a random value."""
        super().reset(seed=seed)
        self._steps = 0
        return self._show_next(), {}

    def step(self, action: int) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Compares the action with the value shown, then shows the next one."""
        self._check_action(action)
        reward = float(action == self._value)
        self._steps += 1
        return self._show_next(), reward, self._steps >= self.episode_length, False, {}

    def _show_next(self) -> FloatArray:
        self._value = int(self.np_random.integers(self.num_values))
        return np.eye(self.num_values, dtype=np.float32)[self._value]

    def _draw(self) -> Frame:
        return bar_chart(np.eye(self.num_values)[self._value], self._value)


@configurable
class IdentityContinuousEnv(ToyWorld[FloatArray, FloatArray]):
    """Punishes the squared distance between the action and the vector that is shown.

    The reward is `-mean((action - observation)**2)`, so the best return is 0; always answering 0
    earns `-episode_length / 3` on average.

    Args:
        dim: size of the vector.
        episode_length: in steps; the episode then terminates.
        render_mode: see `ToyWorld`.
    """

    optimal_return = 0.0

    def __init__(self, dim: int = 1, episode_length: int = 10, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.episode_length = episode_length
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (dim,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (dim,), np.float32)
        self._value = np.zeros(dim, np.float32)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Starts an episode with a random vector."""
        super().reset(seed=seed)
        self._steps = 0
        return self._show_next(), {}

    def step(self, action: FloatArray) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Measures the action against the vector shown, then shows the next one."""
        self._check_action(action)
        reward = -float(np.mean((action - self._value) ** 2))
        self._steps += 1
        return self._show_next(), reward, self._steps >= self.episode_length, False, {}

    def _show_next(self) -> FloatArray:
        self._value = self.np_random.uniform(-1.0, 1.0, self._value.shape).astype(np.float32)
        return self._value.copy()

    def _draw(self) -> Frame:
        return bar_chart(self._value, None)


@configurable
class ContextualBanditEnv(ToyWorld[FloatArray, int]):
    """Pays a noisy reward that depends on a visible context and the chosen arm; one step long.

    Mean rewards are a fixed table drawn uniformly from [0, 1] by `table_seed`, whatever the seed of
    the episodes. The best expected return is `optimal_return`, the mean over contexts of the best arm.

    Args:
        num_contexts: shown one-hot, drawn uniformly.
        num_arms: number of actions.
        noise: standard deviation of the reward.
        table_seed: seed of the table of mean rewards.
        render_mode: see `ToyWorld`.
    """

    def __init__(
        self,
        num_contexts: int = 4,
        num_arms: int = 3,
        noise: float = 0.1,
        table_seed: int = 0,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        self.num_contexts = num_contexts
        self.noise = noise
        self.mean_rewards = np.random.default_rng(table_seed).uniform(size=(num_contexts, num_arms))
        self.observation_space = gym.spaces.Box(0.0, 1.0, (num_contexts,), np.float32)
        self.action_space = gym.spaces.Discrete(num_arms)
        self._context = 0

    @property
    def optimal_return(self) -> float:
        """Expected return of the best policy."""
        return float(self.mean_rewards.max(axis=1).mean())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Shows a random context."""
        super().reset(seed=seed)
        self._context = int(self.np_random.integers(self.num_contexts))
        return self._observe(), {}

    def step(self, action: int) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Pays for the arm and ends the episode."""
        self._check_action(action)
        mean = self.mean_rewards[self._context, action]
        return self._observe(), float(self.np_random.normal(mean, self.noise)), True, False, {}

    def _observe(self) -> FloatArray:
        return np.eye(self.num_contexts, dtype=np.float32)[self._context]

    def _draw(self) -> Frame:
        rewards = self.mean_rewards[self._context]
        return bar_chart(rewards, int(rewards.argmax()))
