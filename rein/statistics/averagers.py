"""Running averages of nests of tensors: over a window, exponential, or adaptive."""

from __future__ import annotations

import torch
from torch import nn

from rein import nest
from rein.config import configurable
from rein.nest import Nest
from rein.runtime import Scheduler
from rein.specs import TensorSpec
from rein.statistics.batches import batch_moments, leaves_of
from rein.statistics.frozen import are_statistics_frozen
from rein.statistics.moments import AdaptiveMoments, EMMoments, Moments, WindowMoments


class Averager(nn.Module):
    """Keeps a running average of a nest of tensors, each averaged over its batch dimensions first.

    The state is in buffers, so it is saved and moved with the module that holds the averager. No gradient flows through
    an average.
    """

    def __init__(self, tensor_spec: Nest, moments: Moments, name: str):
        """Starts without data, when the average is 0.

        Args:
            tensor_spec: nest of TensorSpec, without batch dimensions.
            moments: how batches are combined; of the shapes of the leaves.
            name: for messages.
        """
        super().__init__()
        self._tensor_spec = tensor_spec
        self._leaves = leaves_of(tensor_spec)
        self._moments = moments
        self._name = name

    @property
    def name(self) -> str:
        """Name for messages."""
        return self._name

    @torch.no_grad()
    def update(self, tensor: Nest) -> None:
        """Takes in one batch; an empty one changes nothing, nor does one inside of `frozen_statistics`.

        Args:
            tensor: nest of tensors, [..., *spec.shape] with any batch dimensions, none included.
        """
        if are_statistics_frozen():
            return
        nest.assert_same_structure(tensor, self._tensor_spec)
        batch = batch_moments(nest.flatten(tensor), self._leaves, with_variance=False)
        if batch is not None:
            self._moments.update(*batch)

    def get(self) -> Nest:
        """Returns the current average, a nest of tensors of the shapes of the spec; 0 before any update."""
        averages = [self._moments.mean(i).to(leaf.dtype, copy=True) for i, leaf in enumerate(self._leaves)]
        return nest.pack_sequence_as(self._tensor_spec, averages)

    def average(self, tensor: Nest) -> Nest:
        """Takes in one batch and returns the average including it.

        Args:
            tensor: as for `update`.
        """
        self.update(tensor)
        return self.get()

    def forward(self, tensor: Nest) -> Nest:
        """Does the same as `average`.

        Args:
            tensor: as for `update`.
        """
        return self.average(tensor)

    def reset(self) -> None:
        """Forgets all data."""
        self._moments.reset()


@configurable
class WindowAverager(Averager):
    """Average of the last batches, each weighing the same."""

    def __init__(self, tensor_spec: Nest, window_size: int, name: str = "WindowAverager"):
        """Starts without data.

        Args:
            tensor_spec: nest of TensorSpec, without batch dimensions.
            window_size: number of updates that count.
            name: for messages.
        """
        super().__init__(tensor_spec, WindowMoments(_shapes(tensor_spec), False, window_size), name)


@configurable
class EMAverager(Averager):
    """Exponential moving average, corrected for its start: the first update gives that batch's mean."""

    def __init__(self, tensor_spec: Nest, update_rate: float | Scheduler, name: str = "EMAverager"):
        """Starts without data.

        Args:
            tensor_spec: nest of TensorSpec, without batch dimensions.
            update_rate: weight of each new batch, in (0, 1].
            name: for messages.
        """
        super().__init__(tensor_spec, EMMoments(_shapes(tensor_spec), False, update_rate), name)


@configurable
class AdaptiveAverager(Averager):
    """Average over a window that grows with the data: about the last T / speed of T updates.

    The update after t others has the rate speed / (t + speed); with speed 1 this is the mean of all updates.
    """

    def __init__(self, tensor_spec: Nest, speed: float = 10.0, name: str = "AdaptiveAverager"):
        """Starts without data.

        Args:
            tensor_spec: nest of TensorSpec, without batch dimensions.
            speed: how fast old updates are forgotten.
            name: for messages.
        """
        super().__init__(tensor_spec, AdaptiveMoments(_shapes(tensor_spec), False, speed), name)


@configurable
class ScalarWindowAverager(WindowAverager):
    """Average of a scalar over the last batches."""

    def __init__(self, window_size: int, dtype: torch.dtype = torch.float32, name: str = "ScalarWindowAverager"):
        """Starts without data.

        Args:
            window_size: number of updates that count.
            dtype: of the average.
            name: for messages.
        """
        super().__init__(tensor_spec=TensorSpec((), dtype), window_size=window_size, name=name)


@configurable
class ScalarEMAverager(EMAverager):
    """Exponential moving average of a scalar."""

    def __init__(
        self, update_rate: float | Scheduler, dtype: torch.dtype = torch.float32, name: str = "ScalarEMAverager"
    ):
        """Starts without data.

        Args:
            update_rate: weight of each new batch, in (0, 1].
            dtype: of the average.
            name: for messages.
        """
        super().__init__(tensor_spec=TensorSpec((), dtype), update_rate=update_rate, name=name)


@configurable
class ScalarAdaptiveAverager(AdaptiveAverager):
    """Average of a scalar over a window that grows with the data."""

    def __init__(self, speed: float = 10.0, dtype: torch.dtype = torch.float32, name: str = "ScalarAdaptiveAverager"):
        """Starts without data.

        Args:
            speed: how fast old updates are forgotten.
            dtype: of the average.
            name: for messages.
        """
        super().__init__(tensor_spec=TensorSpec((), dtype), speed=speed, name=name)


def _shapes(tensor_spec: Nest) -> list[torch.Size]:
    return [leaf.shape for leaf in leaves_of(tensor_spec)]
