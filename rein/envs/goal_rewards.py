"""The reward rule of a goal-based world, asked of the world itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rein.config import get_config_value
from rein.envs.single import EnvFactory, attribute

__all__ = ["WorldReward"]


class WorldReward:
    """Computes rewards by `compute_reward(achieved_goal, desired_goal, info)` of the world in force, as `GoalEnv` has it."""

    def __init__(self) -> None:
        """Makes a world by the settings of `create_environment`.

        Raises:
            ValueError: it cannot compute rewards of goals.
        """
        names = ("env_name", "wrappers", "env_kwargs", "env_load_fn")
        source, wrappers, kwargs, loader = (get_config_value(f"create_environment.{name}") for name in names)
        factory = EnvFactory(source, tuple(wrappers), dict(kwargs or {}), loader)
        self._world = factory.make()  # kept, since it owns the rule
        rule: Callable[..., Any] | None = attribute(self._world, "compute_reward")
        if rule is None:
            raise ValueError(
                f"{factory.name} has no compute_reward(achieved_goal, desired_goal, info), by which new goals are rewarded: "
                "give it one, or set HindsightExperienceTransformer.reward_fn"
            )
        self._rule = rule

    def __call__(self, achieved_goal: Tensor, goal: Tensor) -> Tensor:
        """Rewards [B, T] of goals [B, T, ...]."""
        rewards = self._rule(achieved_goal.cpu().numpy(), goal.cpu().numpy(), {})
        return torch.as_tensor(np.asarray(rewards, np.float32), device=goal.device)
