"""A small world with any action space, and algorithms made for it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rein.envs import create_environment
from rein.framework import RLAlgorithm, TrainerConfig

SPACES: dict[str, gym.Space[Any]] = {
    "discrete": gym.spaces.Discrete(3),
    "multi_discrete": gym.spaces.MultiDiscrete([2, 3]),
    "continuous": gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
    "mixed": gym.spaces.Tuple((gym.spaces.Discrete(3), gym.spaces.Box(-1.0, 1.0, (2,), np.float32))),
}


class Tiny(gym.Env[Any, Any]):
    """Random observations and rewards; episodes of five steps that terminate."""

    observation_space = gym.spaces.Box(-10, 10, (3,), np.float32)

    def __init__(self, actions: str, reward_dim: int | None) -> None:
        self.action_space = SPACES[actions]
        if reward_dim is not None:
            self.reward_space = gym.spaces.Box(-10, 10, (reward_dim,), np.float32)
        self.reward_dim = reward_dim
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.normal(size=3).astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.t += 1
        reward = self.np_random.normal(size=self.reward_dim or ()).astype(np.float32)
        reward = float(reward) if self.reward_dim is None else reward
        return self.np_random.normal(size=3).astype(np.float32), reward, self.t == 5, False, {}


@pytest.fixture
def make() -> Callable[..., RLAlgorithm]:
    """Builds an algorithm: `make(cls, actions, settings, reward_dim=, batch=, seed=, **arguments)`."""

    def build(
        cls: Callable[..., RLAlgorithm],
        actions: str,
        settings: dict[str, Any],
        reward_dim: int | None = None,
        batch: int = 2,
        seed: int = 0,
        **arguments: Any,
    ) -> RLAlgorithm:
        torch.manual_seed(seed)
        env = create_environment(partial(Tiny, actions, reward_dim), batch, backend="sync", seed=seed)
        return cls(
            observation_spec=env.observation_spec,
            action_spec=env.action_spec,
            reward_spec=env.reward_spec,
            env=env,
            config=TrainerConfig("", **settings),
            **arguments,
        )

    return build
