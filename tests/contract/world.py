"""A tiny world, the ways to train in it, and what a case is."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch

from rein.data_structures import LossInfo
from rein.envs import create_environment
from rein.framework import Algorithm, RLAlgorithm, TrainerConfig
from rein.optimizers import Adam

Box, Discrete = gym.spaces.Box, gym.spaces.Discrete
SPACES: dict[str, gym.Space[Any]] = {
    "discrete": Discrete(3),
    "multi_discrete": gym.spaces.MultiDiscrete([2, 3]),
    "continuous": Box(-1.0, 2.0, (2,), np.float32),
    "mixed": gym.spaces.Tuple((Discrete(3), Box(-1.0, 1.0, (2,), np.float32))),
}


class Tiny(gym.Env[Any, Any]):
    """Random observations; episodes of four steps, ended in turn by a terminal state and by a time limit."""

    observation_space = Box(-10, 10, (3,), np.float32)

    def __init__(self, actions: str, reward_dim: int | None = None) -> None:
        self.action_space = SPACES[actions]
        if reward_dim is not None:
            self.reward_space = Box(-10, 10, (reward_dim,), np.float32)
        self.reward_dim = reward_dim
        self.episodes = 0
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        self.episodes += 1
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        self.steps += 1
        ends, terminates = self.steps == 4, self.episodes % 2 == 0
        reward = self.np_random.normal(size=self.reward_dim or ()).astype(np.float32)
        reward = float(reward) if self.reward_dim is None else reward
        return self._observation(), reward, ends and terminates, ends and not terminates, {}

    def _observation(self) -> Any:
        return self.np_random.normal(size=3).astype(np.float32)


# Settings of the ways to train: minibatches of fresh rollouts, whole rollouts, a replay buffer.
FRESH = dict(unroll_length=8, mini_batch_length=4, mini_batch_size=2, num_updates_per_train_iter=2)
ROLLOUT = dict(unroll_length=8)
REPLAY = dict(
    unroll_length=3,
    initial_collect_steps=8,
    mini_batch_length=2,
    mini_batch_size=8,
    num_updates_per_train_iter=2,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    replay_buffer_length=50,
)


def adam() -> Adam:
    """An optimizer quick enough for four iterations to change every parameter."""
    return Adam(lr=1e-2)


def default_optimizer() -> dict[str, Any]:
    return {"optimizer": adam()}


class Case(NamedTuple):
    """An algorithm that acts, and how to build it."""

    cls: Callable[..., RLAlgorithm]
    """Called with `observation_spec`, `action_spec`, `reward_spec`, `env`, `config` and the arguments."""
    actions: str
    """Key of `SPACES`."""
    settings: dict[str, Any]
    """Of `TrainerConfig`: `FRESH`, `ROLLOUT` or `REPLAY`, with changes."""
    arguments: Callable[[], dict[str, Any]] = default_optimizer
    """Makes the constructor arguments beside the usual ones: new ones at each call, for a case is built many times."""
    reward_dim: int | None = None
    """Number of rewards; None for one that is a scalar."""
    world: Callable[[str, int | None], gym.Env[Any, Any]] = Tiny
    """Makes one environment from `actions` and `reward_dim`; its episodes are short."""

    still: tuple[str, ...] = ()
    """Names of parameters that iterations do not change, because something else does."""

    def build(self, seed: int = 0, **settings: Any) -> RLAlgorithm:
        """The algorithm with two environments; the settings are changes of those of the case."""
        torch.manual_seed(seed)
        env = create_environment(partial(self.world, self.actions, self.reward_dim), 2, backend="sync", seed=seed)
        algorithm = self.cls(
            observation_spec=env.observation_spec,
            action_spec=env.action_spec,
            reward_spec=env.reward_spec,
            env=env,
            config=TrainerConfig("", **{**self.settings, **settings}),
            **self.arguments(),
        )
        algorithm.set_path("")
        return algorithm


class Part(NamedTuple):
    """An algorithm that learns from batches without acting, and how to build it."""

    make: Callable[[], Algorithm]
    """Makes the algorithm, optimizers included."""
    losses: Callable[[Any], LossInfo]
    """The losses of one batch, always the same batch, by its `train_step` and `calc_loss`: called as `losses(algorithm)`."""

    def build(self, seed: int = 0) -> Algorithm:
        torch.manual_seed(seed)
        algorithm = self.make()
        algorithm.set_path("")
        return algorithm
