"""Any module or function as a network."""

from collections.abc import Callable
from typing import Any

from torch import nn

from rein.nest import Nest
from rein.networks.network import Network


class NetworkWrapper(Network):
    """A module or function of the input as a network without state."""

    def __init__(
        self, module: nn.Module | Callable[[Any], Any], input_tensor_spec: Nest, name: str = "NetworkWrapper"
    ) -> None:
        """Keeps the module.

        Args:
            module: called with the input, [B, ...].
            input_tensor_spec: nest of specs of the input.
            name: of this network.
        """
        super().__init__(input_tensor_spec, state_spec=(), name=name)
        self.module = module

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        """What the module gives, and the state as it is."""
        return self.module(inputs), state
