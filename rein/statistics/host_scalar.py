"""A number that is saved with a module but never leaves the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from numpy.typing import NDArray
from torch import nn


class HostScalar(nn.Module):
    """One number in the state of a module.

    It stays in host memory and keeps its dtype when the module moves, so that reading it never waits for a GPU.
    """

    def __init__(self, initial: int | float):
        """Holds a number.

        Args:
            initial: an int is kept as int64, a float in double precision.
        """
        super().__init__()
        dtype = torch.int64 if isinstance(initial, int) else torch.float64
        self.register_buffer("_number", torch.tensor(initial, dtype=dtype, device="cpu"))

    # Methods, and the buffer by its dictionary: attribute access on modules costs more than the rest of an update.

    def get(self) -> Any:
        """Returns the number, as a Python int or float."""
        return self._buffers["_number"].item()  # type: ignore[union-attr]

    def set(self, number: int | float) -> None:
        """Replaces the number.

        Args:
            number: of the kind that it was created with.
        """
        self._buffers["_number"].fill_(number)  # type: ignore[union-attr]

    def memory(self) -> NDArray[Any]:
        """Returns the number as an array [1] that changes with it, and the number with the array."""
        array: NDArray[Any] = self._buffers["_number"].numpy()  # type: ignore[union-attr]
        return array.reshape(1)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        return self
