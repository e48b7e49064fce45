"""Shrinking an update until what it changes stays within a limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.nest import Nest

_MARGIN = 0.9


class StepAdjustment(NamedTuple):
    """What `TrustedUpdater.adjust_step` did.

    Attributes:
        change: the change as measured after the full update, before any shrinking.
        num_shrinks: how often the update was shrunk; 0 if it was within the limit.
        fraction: which share of the update was kept; 0 if it was taken back.
    """

    change: Nest
    num_shrinks: int
    fraction: float


class TrustedUpdater:
    """Keeps parameters within a trusted distance of where they were, distance in whatever the caller measures.

    It remembers the parameters; after an optimizer has changed them, `adjust_step` moves them back towards what was
    remembered as far as needed, and remembers the result for the next time.

    Args:
        parameters: the tensors that the optimizer changes.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._parameters = list(parameters)
        if not self._parameters:
            raise ValueError("TrustedUpdater needs at least one parameter")
        self._trusted = [parameter.detach().clone() for parameter in self._parameters]

    @torch.no_grad()
    def adjust_step(self, change_f: Callable[[], Nest], max_change: Nest, max_shrinks: int = 100) -> StepAdjustment:
        """Shrinks the last update so that no measured change exceeds its limit.

        With w the trusted parameters, the update is replaced by `w + 0.9 * max_change / change * (w_new - w)`, and this
        is repeated until the change is within the limit. An update whose change is not finite, or that still exceeds
        the limit after `max_shrinks`, is taken back.

        Args:
            change_f: measures the change from the trusted to the present parameters: a scalar or a nest of them, such
                as the mean KL divergence between the action distributions before and after.
            max_change: the limits, positive: a number for all or a nest of the same structure.
            max_shrinks: how often to try.
        """
        first = change = change_f()
        fraction, num_shrinks = 1.0, 0
        while True:
            ratio = _allowed_ratio(change, max_change)
            if ratio >= 1.0:
                break
            if ratio == 0.0 or num_shrinks == max_shrinks:
                torch._foreach_copy_(self._parameters, self._trusted)
                fraction = 0.0
                break
            torch._foreach_lerp_(self._parameters, self._trusted, 1.0 - _MARGIN * ratio)
            fraction *= _MARGIN * ratio
            num_shrinks += 1
            change = change_f()
        self.trust_present_parameters()
        return StepAdjustment(first, num_shrinks, fraction)

    @torch.no_grad()
    def trust_present_parameters(self) -> None:
        """Remembers the parameters as they are now; call it after they were loaded or set from outside."""
        torch._foreach_copy_(self._trusted, self._parameters)


def _allowed_ratio(change: Nest, max_change: Nest) -> float:
    """Returns the smallest limit / change, at least 1 if nothing exceeds its limit, 0 if a change is not finite."""
    changes = [float(value) for value in nest.flatten(change)]
    if nest.is_nested(max_change):
        nest.assert_same_structure(max_change, change)
        limits = [float(value) for value in nest.flatten(max_change)]
    else:
        limits = [float(max_change)] * len(changes)
    if any(not limit > 0.0 for limit in limits):
        raise ValueError(f"max_change must be positive, got {max_change}")
    ratio = 1.0
    for value, limit in zip(changes, limits, strict=True):
        if not math.isfinite(value):
            return 0.0
        if value > limit:
            ratio = min(ratio, limit / value)
    return ratio
