"""Vectors for arrays of whole numbers that are names of things rather than amounts."""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from rein.networks.layers.layer import Layer


class OneHotCodes(Layer):
    """One-hot codes of several whole numbers, each with limits of its own, one after the other in one dimension."""

    def __init__(self, minimum: ArrayLike, maximum: ArrayLike, dim: int = -1) -> None:
        """Lists the values of each number.

        Args:
            minimum: [N], the lowest value of each number.
            maximum: [N], the highest value, included.
            dim: the dimension of N numbers, counted from the end; it gets one entry for each value of each number.
        """
        super().__init__()
        lows, highs = np.asarray(minimum, np.int64), np.asarray(maximum, np.int64)
        if lows.ndim != 1 or lows.shape != highs.shape or (lows > highs).any():
            raise ValueError(
                f"OneHotCodes: minimum {minimum!r} and maximum {maximum!r} are not limits of a row of numbers"
            )
        if dim >= 0:
            raise ValueError(f"OneHotCodes: count dim from the end, got {dim}")
        counts = highs - lows + 1
        self._dim = dim
        self._number = np.repeat(np.arange(len(lows)), counts)
        self._value = np.concatenate([np.arange(low, high + 1) for low, high in zip(lows, highs, strict=True)])
        self._tables: dict[torch.device, tuple[Tensor, Tensor]] = {}

    @property
    def size(self) -> int:
        """Length of the dimension afterwards."""
        return len(self._value)

    def forward(self, x: Tensor) -> Tensor:
        """Maps whole numbers [..., N, ...] to [..., size, ...] of float32."""
        tables = self._tables.get(x.device)
        if tables is None:
            number = torch.from_numpy(self._number).to(x.device)
            value = torch.from_numpy(self._value).to(x.device).reshape(-1, *(1,) * (-self._dim - 1))
            tables = self._tables[x.device] = (number, value)
        number, value = tables
        return (x.index_select(x.ndim + self._dim, number) == value).to(torch.float32)


class Bits(Layer):
    """The binary digits of bytes, the lowest first: numbers and names of things alike can be read from them."""

    _NUM = 8

    def __init__(self, dim: int = -1) -> None:
        """Keeps the dimension.

        Args:
            dim: counted from the end; it becomes eight times as long.
        """
        if dim >= 0:
            raise ValueError(f"Bits: count dim from the end, got {dim}")
        super().__init__()
        self._dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Maps bytes [..., N, ...] to [..., 8 N, ...] of 0 and 1 in float32."""
        whole = x.to(torch.int16)
        return torch.cat([(whole >> digit) & 1 for digit in range(self._NUM)], self._dim).to(torch.float32)
