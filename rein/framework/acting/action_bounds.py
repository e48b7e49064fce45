"""Keeps actions within what the environment accepts.

A Gaussian policy gives any real number. Its action is clipped on the way to the environment only: what it learns from
stays the action it chose, whose probability it knows.
"""

import torch
from torch import Tensor

from rein import nest
from rein.nest import Nest
from rein.specs import BoundedTensorSpec


class ActionBounds:
    """Clips the continuous parts of actions to the bounds of their specs."""

    def __init__(self, action_spec: Nest) -> None:
        """Reads the bounds.

        Args:
            action_spec: nest of specs; discrete and unbounded ones are left alone.
        """
        self._limits: list[tuple[Tensor, Tensor] | None] = [
            (torch.tensor(spec.minimum), torch.tensor(spec.maximum))
            if isinstance(spec, BoundedTensorSpec) and spec.is_continuous
            else None
            for spec in nest.flatten(action_spec)
        ]
        self._is_needed = any(limit is not None for limit in self._limits)

    def clip(self, action: Nest) -> Nest:
        """Actions [B, ...], detached, none out of bounds."""
        # Most actions are one tensor, and the environment waits for it at every step.
        if isinstance(action, Tensor) and len(self._limits) == 1:
            return _clipped(action, self._limits[0])
        if not self._is_needed:
            return nest.map_structure(Tensor.detach, action)
        leaves = [_clipped(leaf, limit) for leaf, limit in zip(nest.flatten(action), self._limits, strict=True)]
        return nest.pack_sequence_as(action, leaves)


def _clipped(action: Tensor, limit: tuple[Tensor, Tensor] | None) -> Tensor:
    action = action.detach()
    if limit is None:
        return action
    low, high = limit
    if low.device != action.device:
        low, high = low.to(action.device), high.to(action.device)
    return action.clamp(low, high)
