"""Small functions of ALF that confs call, or configure."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rein import config as rein_config
from rein import ops
from rein.config import ConfigWarning, configurable
from rein.envs.suites.gymnasium_ids import offered_version
from rein.specs import BoundedTensorSpec
from rein.training.conf_specs import get_observation_spec

__passes_config_on__ = True
__named_with_owner__ = True


def config(
    prefix_or_dict: str | Mapping[str, Any], mutable: bool = True, raise_if_used: bool = True, **kwargs: Any
) -> None:
    """See `rein.config.config`; worlds of a version that is no more are those of the version that there is.

    Args:
        prefix_or_dict: the configurable whose parameters are in `kwargs`, or a dict of names and values.
        mutable: whether a later conf may change the values.
        raise_if_used: whether it is an error if a value was used before.
        **kwargs: values by parameter.
    """
    if prefix_or_dict == "create_environment" and isinstance(kwargs.get("env_name"), str):
        kwargs["env_name"] = _offered(kwargs["env_name"])
    elif isinstance(prefix_or_dict, Mapping):
        known = "create_environment.env_name"
        prefix_or_dict = {
            name: _offered(value) if name == known and isinstance(value, str) else value
            for name, value in prefix_or_dict.items()
        }
    rein_config.config(prefix_or_dict, mutable=mutable, raise_if_used=raise_if_used, **kwargs)


def _offered(env_name: str) -> str:
    offered = offered_version(env_name)
    if offered != env_name:
        warnings.warn(f"{env_name} is no more: {offered} stands for it", ConfigWarning, stacklevel=3)
    return offered


def get_env() -> None:
    """Makes the world of the conf known, as specs do; the world itself belongs to the run and is not handed out."""
    get_observation_spec()


@configurable
def clipped_exp(value: Tensor, clip_value_min: float = -20.0, clip_value_max: float = 2.0) -> Tensor:
    """See `rein.ops.clipped_exp`; a conf may give the limits.

    Args:
        value: [...] exponents.
        clip_value_min: smallest exponent.
        clip_value_max: largest exponent.
    """
    return ops.clipped_exp(value, clip_value_min, clip_value_max)


def config1(config_name: str, value: Any, mutable: bool = True, raise_if_used: bool = True) -> None:
    """Gives one setting a value.

    Args:
        config_name: of the setting.
        value: of it.
        mutable: whether a later conf may change it.
        raise_if_used: whether it is an error if the value was used before.
    """
    config({config_name: value}, mutable=mutable, raise_if_used=raise_if_used)


def create_discrete_skill_spec(num_of_skills: int) -> BoundedTensorSpec:
    """The spec of a skill that is one of so many.

    Args:
        num_of_skills: how many there are.
    """
    return BoundedTensorSpec((), torch.int64, 0, num_of_skills - 1)


def StableTanh() -> str:  # noqa: N802
    """The squashing of a normal distribution by tanh, as our projection networks are told of it."""
    return "tanh"
