"""Random numbers of a policy as inputs: the policy becomes a function, and whoever runs it chooses the generator."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_DRAWS: dict[Any, str] = {
    torch.rand: "uniform",
    torch.rand_like: "uniform",
    torch.randn: "normal",
    torch.randn_like: "normal",
}


class NoiseFrom(TorchFunctionMode):
    """Inside the block, random numbers are taken from tensors that are given, in the order of the calls.

    Attributes:
        draws: for each call, what it is ("normal" or "uniform") and the tensor that it got.
    """

    def __init__(self, given: Sequence[Tensor] | None = None) -> None:
        """Prepares the block.

        Args:
            given: one tensor for each call; None draws them and only notes them.
        """
        super().__init__()
        self._given = given
        self.draws: list[tuple[str, Tensor]] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Answers calls for random numbers; all others pass."""
        kind = _DRAWS.get(func)
        if kind is None or self._given is None:
            result = func(*args, **(kwargs or {}))
        else:
            result = self._given[len(self.draws)].clone()
        if kind is not None:
            self.draws.append((kind, result.clone()))  # The caller may go on to compute in place.
        return result
