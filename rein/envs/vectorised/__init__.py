"""Worlds whose whole batch is stepped by compiled code, bit for bit as Gymnasium steps them."""

import functools
from collections.abc import Callable

from rein.envs.environment import Environment
from rein.envs.vectorised.classic import ClassicControlEnvironment, has_exact_kernel
from rein.envs.vectorised.locomotion import LocomotionEnvironment, has_exact_locomotion

__all__ = [
    "ClassicControlEnvironment",
    "LocomotionEnvironment",
    "exact_batch",
    "has_exact_kernel",
    "has_exact_locomotion",
]


def exact_batch(env_name: str) -> Callable[..., Environment] | None:
    """What makes a compiled batch of `env_name` from ``(batch_size, seed, num_slots, fault_policy)``; None if nothing.

    Only batches that agree with the installed Gymnasium are given.
    """
    if has_exact_kernel(env_name):
        return functools.partial(ClassicControlEnvironment, env_name)
    if has_exact_locomotion(env_name):
        return functools.partial(LocomotionEnvironment, env_name)
    return None
