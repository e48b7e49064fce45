"""Masks of valid actions inside of an observation: what a policy may not choose gets no chance.

An environment shows them under the key `valid_action_mask`, bool [n] for a discrete action of n values, beside what else it
observes. Networks whose observation has that key give forbidden actions a logit or value of `FORBIDDEN`, in acting and in
learning, so that they are neither sampled nor in the target of any other. Where a mask forbids everything, as some worlds
say after the end, everything is allowed.
"""

from typing import Any

import torch
from torch import Tensor

from rein.distributions import Categorical
from rein.nest import Nest
from rein.networks.item_paths import get_item
from rein.specs import BoundedTensorSpec, TensorSpec

MASK_KEY = "valid_action_mask"
FORBIDDEN = -1e9
"""Finite, so that 0 times it is 0; far below any value."""


def mask_path(input_spec: Nest, action_spec: Nest) -> tuple[Any, ...] | None:
    """Where a network finds the mask of its action in its input; None if there is none.

    Args:
        input_spec: the observation, or a tuple with the observation in front.
        action_spec: of the action; only one discrete scalar has a mask.
    """
    if not isinstance(action_spec, BoundedTensorSpec) or not action_spec.is_discrete or action_spec.ndim != 0:
        return None
    if isinstance(input_spec, tuple) and input_spec and isinstance(input_spec[0], dict):
        rest = mask_path(input_spec[0], action_spec)
        return None if rest is None else (0, *rest)
    if not isinstance(input_spec, dict) or MASK_KEY not in input_spec:
        return None
    spec = input_spec[MASK_KEY]
    if not isinstance(spec, TensorSpec) or tuple(spec.shape) != (action_spec.num_values,):
        raise ValueError(
            f"{MASK_KEY} is {spec}: it must have one entry for each of the {action_spec.num_values} values of the action"
        )
    return (MASK_KEY,)


def has_mask(observation_spec: Nest, action_spec: Nest) -> bool:
    """Whether observations say which actions are valid."""
    return mask_path(observation_spec, action_spec) is not None


def forbid(values: Tensor, mask: Tensor, dim: int = -1) -> Tensor:
    """Values with `FORBIDDEN` where the mask is not set.

    Args:
        values: [..., n] with `dim` -1, [..., n, m] with -2.
        mask: [..., n], true for valid actions.
        dim: of the actions in `values`.
    """
    valid = mask.to(torch.bool)
    valid = valid | ~valid.any(-1, keepdim=True)
    if dim == -2:
        valid = valid.unsqueeze(-1)
    return values.masked_fill(~valid, FORBIDDEN)


def forbid_in(distribution: Categorical, inputs: Nest, path: tuple[Any, ...] | None) -> Categorical:
    """The distribution without the choices that the mask at `path` of the inputs forbids; itself if `path` is None."""
    return distribution if path is None else Categorical(logits=forbid(distribution.logits, get_item(inputs, path)))


def is_forbidden(logits: Tensor) -> Tensor:
    """Which choices of logits, or of values divided by a temperature, are forbidden, [..., n]."""
    return logits < logits.max(-1, keepdim=True).values + FORBIDDEN / 1e3
