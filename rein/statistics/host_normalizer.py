"""Normalizing one small batch after the other on the host, in one compiled loop for each.

For a few numbers even numpy's calls cost several times what they compute, and a step of a rollout has no more.
"""

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.graph import increment_version

from rein.statistics.moments import DecayingMoments, Moments


class HostNormalizer:
    """Does to arrays what a `Normalizer` of one tensor does to tensors, with the same moments.

    It looks at their memory, and is of no use any more when they are moved: see `fits`.
    """

    def __init__(self, moments: DecayingMoments, zero_mean: bool, variance_epsilon: float, clip_value: float) -> None:
        """Takes in nothing until `begin`.

        Args:
            moments: such that `can_normalize_on_host`.
            zero_mean: whether to subtract the mean.
            variance_epsilon: added to what the root is taken of.
            clip_value: if > 0, results are limited to [-clip_value, clip_value].
        """
        from rein.statistics._loops import normalize_rows

        self._loop: Callable[..., None] = normalize_rows
        self._rate = moments.rate
        self._places = _places(moments)
        self._tensors = [moments.mean(0), moments.variance(0)]
        self._mean, self._variance = (tensor.numpy().reshape(-1) for tensor in self._tensors)
        self._mass, self._updates = moments.mass.memory(), moments.updates.memory()
        self._rest = (zero_mean, variance_epsilon, clip_value)
        self._takes_in = False

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Copies of what holds it have None in its place: their moments are elsewhere."""
        return type(None), ()

    def fits(self, moments: DecayingMoments, clip_value: float) -> bool:
        """Whether it limits results to `clip_value`, and the memory that it looks at is that of `moments`."""
        return self._rest[-1] == clip_value and self._places == _places(moments)

    def begin(self, takes_in: bool) -> None:
        """Begins with batches that the moments take in or not."""
        self._takes_in = takes_in
        if takes_in:
            # Whoever looks out for changes of buffers learns of what is about to be written.
            increment_version(self._tensors)

    def __call__(self, batch: NDArray[Any], out: NDArray[Any], keep: bool = True) -> None:
        """Writes the normalized batch to `out`.

        Args:
            batch: [B, ...], single precision, contiguous.
            out: [B, ...], the same; it may be `batch` itself.
            keep: False: the batch will come again, and is not taken in now.
        """
        rate = self._rate(int(self._updates[0])) if self._takes_in and keep else 0.0
        if batch.ndim != 2:
            batch, out = batch.reshape(len(batch), -1), out.reshape(len(batch), -1)
        self._loop(batch, out, self._mean, self._variance, self._mass, self._updates, rate, *self._rest)


def can_normalize_on_host(moments: Moments, dtype: torch.dtype) -> bool:
    """Whether a `HostNormalizer` can do it.

    Args:
        moments: of a normalizer.
        dtype: of what is normalized.
    """
    if not isinstance(moments, DecayingMoments) or len(moments.shapes) != 1 or not moments.track_variance:
        return False
    return dtype == torch.float32 and moments.shapes[0].numel() > 0 and moments.mean(0).is_cpu


def _places(moments: DecayingMoments) -> tuple[int, ...]:
    """Where in memory the moments are."""
    tensors: list[Tensor] = [moments.mean(0), moments.variance(0), *moments.mass.buffers(), *moments.updates.buffers()]
    return tuple(tensor.data_ptr() for tensor in tensors)
