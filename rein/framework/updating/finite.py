"""Numbers that are none are kept away from parameters, optimizers and checkpoints."""

import logging
import math
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch._utils import _flatten_dense_tensors
from torch.nn import Parameter

from rein.runtime.run import current_run_or_none

logger = logging.getLogger(__name__)

MAX_SKIPPED_IN_A_ROW = 10
_MOST_NAMES = 5
_SMALL = 16384
"""Elements of a tensor below which calling an operation takes longer than reading it."""


class NonFiniteGradientError(FloatingPointError):
    """Gradients were NaN or infinite too often in a row; no parameter was changed by them."""


class NonFiniteParametersError(FloatingPointError):
    """Parameters or optimizers hold NaN or infinite numbers, so that no checkpoint is made of them."""


class SkippedUpdates:
    """Counts updates of one learner that were left out.

    Attributes:
        total: since it was built.
        in_a_row: since its last good update.
    """

    def __init__(self) -> None:
        self.total = 0
        self.in_a_row = 0

    def skip(self, learner: nn.Module, parameters: Sequence[Parameter], values: Sequence[Tensor | None]) -> None:
        """Counts an update that was left out.

        Raises:
            NonFiniteGradientError: it was one too many.
        """
        self.total += 1
        self.in_a_row += 1
        run = current_run_or_none()
        if run is not None:
            run.skipped_updates += 1
        given = [(parameter, value) for parameter, value in zip(parameters, values, strict=True) if value is not None]
        # Each may be safe for itself where their sum is too large.
        bad = [parameter for parameter, value in given if not math.isfinite(sum_of_squares([value]))] or [
            parameter for parameter, _ in given
        ]
        names = {parameter: name for name, parameter in learner.named_parameters()}
        shown = ", ".join(names.get(parameter, "?") for parameter in bad[:_MOST_NAMES])
        more = f" and {len(bad) - _MOST_NAMES} more" if len(bad) > _MOST_NAMES else ""
        what = f"the gradients of {shown}{more} are NaN, infinite or too large for their squares to be numbers"
        if self.in_a_row >= MAX_SKIPPED_IN_A_ROW:
            raise NonFiniteGradientError(
                f"{what}; so were those of the {self.in_a_row - 1} updates before. No parameter was changed by them. Go on "
                "from the last checkpoint with a lower learning rate, or look for huge observations and rewards"
            )
        if self.in_a_row == 1:
            logger.warning("%s: the update is left out (%d so far)", what, self.total)


_SKIPPED: WeakKeyDictionary[nn.Module, SkippedUpdates] = WeakKeyDictionary()


def skipped_updates(learner: nn.Module) -> SkippedUpdates:
    """What was left out of the updates of a learner."""
    found = _SKIPPED.get(learner)
    if found is None:
        found = _SKIPPED[learner] = SkippedUpdates()
    return found


def admits(
    learner: nn.Module, parameters: Sequence[Parameter], values: Sequence[Tensor | None], squares: float
) -> bool:
    """Whether gradients may be applied; if not, the update is counted as skipped.

    Args:
        learner: what learns.
        parameters: what they are gradients of.
        values: the gradients; None where a parameter takes no part.
        squares: the sum of their squares.

    Raises:
        NonFiniteGradientError: too many in a row were not finite.
    """
    if math.isfinite(squares):
        counter = _SKIPPED.get(learner)
        if counter is not None:
            counter.in_a_row = 0
        return True
    skipped_updates(learner).skip(learner, parameters, values)
    return False


def sum_of_squares(values: Iterable[Tensor | None]) -> float:
    """The sum of the squares of all elements, which is finite if all of them are, and what optimizers keep of them."""
    tensors = [value for value in values if value is not None]
    squares, small = 0.0, []
    for tensor in tensors:
        if not tensor.is_cpu or tensor.dtype is not tensors[0].dtype:
            return _sum_of_squares_anywhere(tensors)
        if tensor.numel() < _SMALL or not tensor.is_contiguous():
            small.append(tensor)
        else:
            flat = tensor.view(-1)
            squares += torch.dot(flat, flat).item()
    if small:
        # One copy and one product take a tenth of the time that a product of each small tensor takes.
        flat = _flatten_dense_tensors(small) if len(small) > 1 else small[0].reshape(-1)  # type: ignore[no-untyped-call]
        squares += torch.dot(flat, flat).item()
    return squares


def _sum_of_squares_anywhere(tensors: list[Tensor]) -> float:
    """The same for tensors on any devices and of any types."""
    norms = torch._foreach_norm(tensors)
    # Squared again, since the norm of a single element is found without squaring it.
    squares = torch.stack([norm.to(tensors[0].device, torch.float32) for norm in norms]).square()
    return squares.sum().item()


def check_finite_state(algorithm: nn.Module, optimizers: Iterable[Any]) -> None:
    """Makes sure that what would be saved can be trained further.

    Args:
        algorithm: its parameters must be finite.
        optimizers: what they keep of each parameter, too.

    Raises:
        NonFiniteParametersError: something is not; the message names it.
    """
    names = {parameter: name for name, parameter in algorithm.named_parameters()}
    bad = [name for parameter, name in names.items() if not _is_finite(parameter)]
    for optimizer in optimizers:
        for parameter, kept in getattr(optimizer, "state", {}).items():
            bad += [
                f"{key} of {names.get(parameter, '?')} in its optimizer"
                for key, value in (kept.items() if isinstance(kept, dict) else ())
                if isinstance(value, Tensor) and not _is_finite(value)
            ]
    if bad:
        more = f" and {len(bad) - _MOST_NAMES} more" if len(bad) > _MOST_NAMES else ""
        raise NonFiniteParametersError(
            f"not saved: {', '.join(bad[:_MOST_NAMES])}{more} hold NaN or infinite numbers. The checkpoints before are "
            "intact; lower the learning rate or clip gradients"
        )


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor.detach()).all())
