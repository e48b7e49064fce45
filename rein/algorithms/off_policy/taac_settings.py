"""Checks of the settings of temporally abstract actor-critic."""

import math
from typing import Any

from rein.framework.trainer_config import TrainerConfig
from rein.specs import BoundedTensorSpec


def check_settings(
    name: str,
    action_spec: Any,
    initial_alpha: float,
    clipping: tuple[float, float] | None,
    max_repeat_steps: int | None,
    config: TrainerConfig | None,
) -> None:
    """Raises `ValueError` for actions and numbers that it cannot work with."""
    is_vector = isinstance(action_spec, BoundedTensorSpec) and action_spec.ndim == 1
    if not is_vector or not action_spec.is_continuous:
        raise ValueError(f"{name}: needs one continuous vector of actions with bounds, got {action_spec!r}")
    if not 0.0 < initial_alpha < math.inf:
        raise ValueError(f"{name}: initial_alpha is {initial_alpha}: a temperature must be positive")
    if clipping is not None and not (len(clipping) == 2 and clipping[0] <= clipping[1]):
        raise ValueError(f"{name}: b1_advantage_clipping is {clipping}: give (lowest, highest)")
    if max_repeat_steps is not None and max_repeat_steps < 0:
        raise ValueError(f"{name}: max_repeat_steps is {max_repeat_steps}: give 0 or more steps, or None for no limit")
    if config is not None and config.mini_batch_length is not None and config.mini_batch_length < 2:
        raise ValueError(f"{name}: mini_batch_length is {config.mini_batch_length}: a TD target needs at least 2 steps")
