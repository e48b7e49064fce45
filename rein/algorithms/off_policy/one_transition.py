"""One transition per sample: sequences of two steps, of which each network sees only the one it is needed at.

Algorithms that learn from sequences evaluate every network at every step. For sequences of two steps and one-step targets
half of that is thrown away: actions and their values matter at the first step, targets at the second. With
`one_transition=True` an algorithm takes the flat batch [2 B, ...] that `train_step` gets for sequences [B, 2, ...] apart,
evaluates each half where it counts, and puts zeros, which no loss looks at, into the rest.
"""

from typing import Any

import torch
from torch import Tensor

from rein import nest
from rein.nest import Nest


def check_one_transition(config: Any | None, train_state_spec: Nest, name: str) -> None:
    """Raises `ValueError` if `one_transition` cannot be used.

    Args:
        config: settings of the run, if known.
        train_state_spec: specs of the recurrent state of `train_step`.
        name: of the algorithm, for the message.
    """
    if not nest.is_empty(train_state_spec):
        raise ValueError(f"{name}: recurrent networks learn from sequences: leave out one_transition=True")
    if config is None:
        return
    if config.mini_batch_length != 2 or config.whole_replay_buffer_training:
        raise ValueError(
            f"{name}: one_transition=True needs sequences of two steps from replay: set mini_batch_length=2 and "
            f"whole_replay_buffer_training=False, not {config.mini_batch_length} and {config.whole_replay_buffer_training}"
        )


def first_steps(data: Nest) -> Nest:
    """[2 B, ...] of pairs to the first steps, [B, ...]; views."""
    return nest.map_structure(lambda tensor: tensor[0::2], data)


def second_steps(data: Nest) -> Nest:
    """[2 B, ...] of pairs to the second steps, [B, ...]; views."""
    return nest.map_structure(lambda tensor: tensor[1::2], data)


def at_first_steps(values: Tensor) -> Tensor:
    """[B, ...] put at the first steps of pairs, zeros at the second: [2 B, ...]."""
    return torch.stack((values, torch.zeros_like(values)), dim=1).flatten(0, 1)


def at_second_steps(values: Tensor) -> Tensor:
    """[B, ...] put at the second steps of pairs, zeros at the first: [2 B, ...]."""
    return torch.stack((torch.zeros_like(values), values), dim=1).flatten(0, 1)
