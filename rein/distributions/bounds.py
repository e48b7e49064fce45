"""The interval that bounded actions live in, with what the distributions need to know of it worked out once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rein.specs import BoundedTensorSpec

Bound = float | Tensor


class Bounds:
    """An interval per element of an event.

    Plain numbers are kept as numbers, which is cheapest. Build it once (a network can keep it) and hand it to the
    distributions in the place of `low`; they then skip all work on the bounds.

    Args:
        low: lower end, a number or a tensor that broadcasts to the event.
        high: upper end, above `low`.
    """

    def __init__(self, low: Bound, high: Bound) -> None:
        self.low = low
        self.high = high
        if isinstance(low, Tensor) or isinstance(high, Tensor):
            low_tensor = torch.as_tensor(low)
            high_tensor = torch.as_tensor(high)
            self.center: Bound = 0.5 * (low_tensor + high_tensor)
            self.half_width: Bound = 0.5 * (high_tensor - low_tensor)
            self.log_half_width: Bound = self.half_width.log()
            self.is_unit = False
            return
        if not low < high:
            raise ValueError(f"low must be below high, got low={low} and high={high}")
        self.center = 0.5 * (low + high)
        self.half_width = 0.5 * (high - low)
        self.log_half_width = math.log(self.half_width)
        self.is_unit = low == -1.0 and high == 1.0

    @classmethod
    def from_spec(cls, spec: BoundedTensorSpec, device: torch.device | str | None = None) -> Bounds:
        """Returns the bounds of `spec`, as plain numbers if they are the same for every element."""
        low = np.broadcast_to(np.asarray(spec.minimum), tuple(spec.shape))
        high = np.broadcast_to(np.asarray(spec.maximum), tuple(spec.shape))
        if not (low < high).all() or not np.isfinite(low).all() or not np.isfinite(high).all():
            raise ValueError(f"bounds must be finite with minimum below maximum, got {spec}")
        if (low == low.flat[0]).all() and (high == high.flat[0]).all():
            return cls(float(low.flat[0]), float(high.flat[0]))
        return cls(
            torch.tensor(low, dtype=spec.dtype, device=device),
            torch.tensor(high, dtype=spec.dtype, device=device),
        )

    def log_volume_scale(self, event_shape: torch.Size) -> Bound:
        """Returns the log of the volume of the box over that of [-1, 1] to the power of the event's size."""
        log_half_width = self.log_half_width
        if isinstance(log_half_width, Tensor):
            if log_half_width.shape == event_shape:
                return log_half_width.sum()
            return log_half_width.expand(event_shape).sum()
        return 0.0 if self.is_unit else log_half_width * math.prod(event_shape)

    def distances(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """Returns how far `value` is from the lower and from the upper end, never less than rounding can tell.

        The subtractions are exact where it matters: next to the end. The smallest distance is half of an epsilon of the
        half width, the last step that a value in [-1, 1] can make before 1.
        """
        smallest = self.half_width * (0.5 * torch.finfo(value.dtype).eps)
        return (value - self.low).clamp_min(smallest), (self.high - value).clamp_min(smallest)

    def from_unit(self, value: Tensor) -> Tensor:
        """Returns [-1, 1] mapped onto the interval, never outside of it."""
        if self.is_unit:
            return value
        return (self.center + self.half_width * value).clamp(self.low, self.high)  # type: ignore[arg-type]

    def clamp(self, value: Tensor) -> Tensor:
        """Returns `value` moved into the interval."""
        return value.clamp(self.low, self.high)  # type: ignore[arg-type]

    def same_as(self, other: Bounds) -> bool:
        """Whether both describe the same interval."""
        return self is other or (_equal(self.low, other.low) and _equal(self.high, other.high))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bounds) and self.same_as(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Bounds({self.low}, {self.high})"


def as_bounds(low: Bound | Bounds, high: Bound) -> Bounds:
    """Returns `low` if it is `Bounds` already, otherwise those from `low` to `high`."""
    return low if isinstance(low, Bounds) else Bounds(low, high)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and bool((a == b).all())
    return not isinstance(a, Tensor) and not isinstance(b, Tensor) and a == b
