"""Rewards of worlds as functions of where an action led, for `FixedRewardFunction`.

All take observations [..., d] and actions [..., A] with any dimensions before the last, and reduce the last only.
"""

import torch
from torch import Tensor

from rein.config import configurable
from rein.envs.toy.cart_pole import CART_LIMIT, POLE_LIMIT

_DIVERGED = 1e6


@configurable
def pendulum_reward(observation: Tensor, action: Tensor) -> Tensor:
    """Gives the reward of Pendulum-v1: -(angle^2 + 0.1 speed^2 + 0.001 torque^2), with the angle from the top.

    Args:
        observation: [..., 3] cosine and sine of the angle, and the speed.
        action: [..., 1] torque.

    Returns:
        [...]; -1e6 where it would be NaN, so that a plan whose imagination diverged loses.
    """
    angle = torch.atan2(observation[..., 1], observation[..., 0])
    cost = angle.square() + 0.1 * observation[..., 2].square() + 0.001 * action[..., 0].square()
    return -cost.masked_fill(cost.isnan(), _DIVERGED)


@configurable
def cartpole_reward(observation: Tensor, action: Tensor) -> Tensor:
    """Gives the reward of rein/CartPoleContinuous-v0: 1 in the middle and upright, less beside it, 0 beyond the limits.

    Args:
        observation: [..., 4] position, speed, angle from the vertical, angular speed.
        action: [..., 1] not used.

    Returns:
        [...]: 1 - (position^2 / limit^2 + angle^2 / limit^2) / 2, not below 0; 0 where it would be NaN.
    """
    position, angle = observation[..., 0] / CART_LIMIT, observation[..., 2] / POLE_LIMIT
    inside = (position.abs() <= 1.0) & (angle.abs() <= 1.0)
    reward = 1.0 - 0.5 * (position.square() + angle.square())
    return reward.masked_fill(~inside, 0.0)
