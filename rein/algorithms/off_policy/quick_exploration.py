"""Exploration on the host, for quick rollouts: what a deterministic policy does with noise, see `QuickActor`."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rein.algorithms.off_policy.continuous_actions import ContinuousActions
from rein.networks import HostActor
from rein.networks.host_layers import Array
from rein.specs import BoundedTensorSpec


class _Noise(NamedTuple):
    """What chance does to one step."""

    increment: Array
    """[B, n] is added to the noise that is kept."""
    uniform: Array
    """[B, n] random actions."""
    is_random: Array
    """[B] where they are taken."""
    num_random: int


class HostExplorer:
    """mu(s) + x with x' = keep x + N, within the bounds, or at times a uniformly random action.

    Attributes:
        num_carried: 1 if x is kept from step to step, else 0.
    """

    def __init__(
        self,
        actor: HostActor,
        actions: ContinuousActions,
        draw_increments: Callable[[int], Tensor],
        random_action: Callable[[], float],
        keep: Callable[[], float] | None,
    ) -> None:
        """Keeps what the algorithm explores by, asked for at the start of each rollout.

        Args:
            actor: mu.
            actions: of one tensor; their bounds.
            draw_increments: gives N for so many observations, [N, ...].
            random_action: chance of a random action.
            keep: share of x that is kept from step to step; None: each step has a noise of its own.
        """
        self._actor, self._actions = actor, actions
        self._draw_increments, self._random_action, self._keep = draw_increments, random_action, keep
        self._share = 0.0
        spec: BoundedTensorSpec = actions.spec
        self._shape = tuple(spec.shape)
        self._low, self._high = (
            np.broadcast_to(np.asarray(bound, np.float32), self._shape).reshape(-1)
            for bound in (spec.minimum, spec.maximum)
        )
        self.num_carried = int(keep is not None)

    def draw_noise(self, *shape: int) -> Sequence[_Noise]:
        """What chance does to the steps of a rollout, `shape` = (T, B)."""
        self._actor.refresh()
        length, batch_size = shape
        rows = length * batch_size
        chance = self._random_action()
        increment = self._draw_increments(rows).view(length, batch_size, -1).numpy()
        uniform, is_random = increment, np.zeros(shape, bool)
        if chance > 0.0:
            uniform = self._actions.uniform(rows).view(length, batch_size, -1).numpy()
            is_random = (torch.rand(shape) < chance).numpy()
        if self._keep is not None:
            self._share = self._keep()
        counts = is_random.sum(1).tolist()
        return list(map(_Noise._make, zip(increment, uniform, is_random, counts, strict=True)))

    def act(self, observation: Array, noise: _Noise, carried: Sequence[Array] = ()) -> Array:
        """Actions [B, ...] at observations [B, n]."""
        x = noise.increment
        for kept in carried:
            kept *= self._share
            kept += x.reshape(kept.shape)
            x = kept.reshape(x.shape)
        if noise.num_random == len(noise.is_random):
            # All are random: nobody asks the policy.
            return noise.uniform.reshape(-1, *self._shape)
        action = self._actor(observation)
        action += x
        np.maximum(action, self._low, out=action)
        np.minimum(action, self._high, out=action)
        if noise.num_random:
            action[noise.is_random] = noise.uniform[noise.is_random]
        return action.reshape(-1, *self._shape)
