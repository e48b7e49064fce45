"""Small functions of ALF that confs call, or configure."""

from typing import Any

import torch
from torch import Tensor

from rein import ops
from rein.config import config, configurable
from rein.specs import BoundedTensorSpec


@configurable
def clipped_exp(value: Tensor, value_min: float = -20.0, value_max: float = 2.0) -> Tensor:
    """See `rein.ops.clipped_exp`; a conf may give the limits.

    Args:
        value: [...] exponents.
        value_min: smallest exponent.
        value_max: largest exponent.
    """
    return ops.clipped_exp(value, value_min, value_max)


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
