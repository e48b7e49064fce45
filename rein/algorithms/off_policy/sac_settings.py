"""Checks of the settings of soft actor-critic, and what they mean for the temperatures."""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from rein import nest
from rein.algorithms.off_policy.sac_heads import ActionParts
from rein.distributions import calc_default_target_entropy
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.specs import BoundedTensorSpec, TensorSpec

TargetEntropy: TypeAlias = float | Callable[[Nest], float] | None
TargetEntropies: TypeAlias = TargetEntropy | Sequence[TargetEntropy]


def check_rewards(name: str, reward_spec: TensorSpec, parts: ActionParts) -> None:
    """Raises `ValueError` for rewards that soft actor-critic cannot learn from."""
    if reward_spec.ndim > 1:
        raise ValueError(f"{name}: reward_spec has shape {tuple(reward_spec.shape)}: give a scalar or a vector")
    if reward_spec.ndim == 1 and parts.discrete != () and parts.continuous != ():
        raise ValueError(
            f"{name}: vector rewards ({reward_spec}) work with continuous actions or with one discrete action, not with "
            "mixed ones: weigh the rewards into one number first"
        )


def check_settings(
    name: str,
    config: TrainerConfig | None,
    *,
    num_critic_replicas: int,
    initial_log_alpha: float,
    max_log_alpha: float | None,
    target_kld_per_dim: float,
    target_update_tau: float,
    dqda_clipping: float | None,
    reproduce_locomotion: bool,
    one_transition: bool,
) -> None:
    """Raises `ValueError` for numbers outside of their range and for settings that exclude each other."""
    if num_critic_replicas < 1:
        raise ValueError(f"{name}: num_critic_replicas is {num_critic_replicas}: give at least 1")
    if not math.isfinite(initial_log_alpha):
        raise ValueError(f"{name}: initial_log_alpha is {initial_log_alpha}: give the log of a positive temperature")
    if max_log_alpha is not None and initial_log_alpha > max_log_alpha:
        raise ValueError(
            f"{name}: initial_log_alpha is {initial_log_alpha}, above max_log_alpha {max_log_alpha}: lower it"
        )
    if target_kld_per_dim < 0:
        raise ValueError(f"{name}: target_kld_per_dim is {target_kld_per_dim}: a divergence is not negative")
    if not 0.0 < target_update_tau <= 1.0:
        raise ValueError(f"{name}: target_update_tau is {target_update_tau}: it must be in (0, 1]")
    if dqda_clipping is not None and dqda_clipping < 0:
        raise ValueError(f"{name}: dqda_clipping is {dqda_clipping}: give a positive limit, or None for no limit")
    if one_transition and reproduce_locomotion:
        raise ValueError(
            f"{name}: one_transition has policy losses at the first step, reproduce_locomotion everywhere else: choose one"
        )
    if config is not None and config.mini_batch_length is not None and config.mini_batch_length < 2:
        raise ValueError(f"{name}: mini_batch_length is {config.mini_batch_length}: a TD target needs at least 2 steps")


def find_target_entropy(name: str, given: TargetEntropies, action_specs: Sequence[Nest]) -> Tensor:
    """The target entropies in nats, [K].

    Args:
        name: of the algorithm, for messages.
        given: a number, a function of the action spec or None (the default), for all temperatures or for each.
        action_specs: the K parts of the action spec.
    """
    each = _each(given, len(action_specs))
    if len(each) != len(action_specs):
        raise ValueError(
            f"{name}: target_entropy has {len(each)} values, there is/are {len(action_specs)} temperature(s)"
        )
    found = [_target_entropy(one, spec) for one, spec in zip(each, action_specs, strict=True)]
    return torch.tensor(found, dtype=torch.float32)


def masked_target_entropy(given: TargetEntropies, num_temperatures: int, action_spec: BoundedTensorSpec) -> Tensor:
    """The target entropy of the first temperature for a mask with 0 to A valid values, [A + 1]: that of so many actions.

    Args:
        given: see `find_target_entropy`; a number counts for every mask.
        num_temperatures: K.
        action_spec: of the discrete action, which has A values.
    """
    dtype = action_spec.dtype
    fewer = [BoundedTensorSpec((), dtype, 0, max(0, valid - 1)) for valid in range(action_spec.num_values + 1)]
    return torch.tensor([_target_entropy(_each(given, num_temperatures)[0], spec) for spec in fewer])


def _each(given: TargetEntropies, num_temperatures: int) -> list[TargetEntropy]:
    return list(given) if isinstance(given, Sequence) else [given] * num_temperatures


def _target_entropy(given: TargetEntropy, action_spec: Nest) -> float:
    if given is None:
        return calc_default_target_entropy(action_spec)
    return float(given(action_spec)) if callable(given) else float(given)


def negated_divergence(kld_per_dim: float, action_spec: Nest) -> float:
    """What takes the place of the target entropy if there is a prior: minus the KL divergence wanted, in nats.

    Args:
        kld_per_dim: for each number in an action.
        action_spec: specs of the actions.
    """
    return -kld_per_dim * sum(spec.numel for spec in nest.flatten(action_spec))
