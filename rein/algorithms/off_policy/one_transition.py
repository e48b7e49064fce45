"""One transition per sample: sequences of two steps, learnt from at the first, as most descriptions of algorithms have it.

By default every step of a sampled sequence has a loss of the policy. With `one_transition=True` only the first of two has.
"""

from functools import partial
from typing import Any

from torch import Tensor

from rein import nest
from rein.data_structures import LossInfo, StepType
from rein.nest import Nest


def check_one_transition(one_transition: bool, config: Any | None, train_state_spec: Nest, name: str) -> None:
    """Raises `ValueError` if `one_transition` cannot be used.

    Args:
        one_transition: whether it is to be used.
        config: settings of the run, if known.
        train_state_spec: specs of the recurrent state of `train_step`.
        name: of the algorithm, for the message.
    """
    if not one_transition:
        return
    if not nest.is_empty(train_state_spec):
        raise ValueError(f"{name}: recurrent networks learn from sequences: leave out one_transition=True")
    if config is not None and config.mini_batch_length not in (None, 2):
        raise ValueError(f"{name}: one_transition needs mini_batch_length=2, got {config.mini_batch_length}")


def check_length(one_transition: bool, length: int, name: str) -> None:
    """Raises `ValueError` if `one_transition` is used with sequences of another length than 2."""
    if one_transition and length != 2:
        raise ValueError(f"{name}: one_transition needs sequences of 2 steps, got {length}: set mini_batch_length=2")


def policy_steps(one_transition: bool, length: int, name: str) -> range:
    """The steps of sequences of `length` that the policy learns from."""
    check_length(one_transition, length, name)
    return range(1) if one_transition else range(length)


def of_first_steps(loss_info: LossInfo, step_type: Tensor) -> LossInfo:
    """Losses [2, B] as those of the first steps, [B], with zeros where that is a LAST step.

    Args:
        loss_info: `loss` and `extra` hold tensors [2, B].
        step_type: [2, B].
    """
    is_valid = step_type[0] != StepType.LAST
    first = partial(nest.map_structure, lambda row: row[0] * is_valid)
    return loss_info._replace(loss=first(loss_info.loss), extra=first(loss_info.extra))
