"""Known worlds with part of their state hidden."""

from typing import Any

import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

from rein.envs.wrappers.observations import MaskVelocity


def cart_pole_no_velocity(**kwargs: Any) -> gym.Env[Any, Any]:
    """Returns CartPole that shows only cart position and pole angle, so that balancing needs memory.

    Args:
        **kwargs: for Gymnasium's CartPoleEnv.
    """
    return MaskVelocity(CartPoleEnv(**kwargs), velocities=(1, 3), drop=True)
