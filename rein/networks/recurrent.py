"""Recurrent cells as networks, and networks that remember in simpler ways."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.distributions.params import map_params
from rein.nest import Nest
from rein.networks.layers import FC, GRULayer, LSTMLayer, RecurrentCell
from rein.networks.layers.initializers import Activation
from rein.networks.network import Network
from rein.specs import TensorSpec

CellCtor = Callable[[int, int], RecurrentCell | Network]
"""Makes one recurrent layer from ``(input_size, hidden_size)``: `LSTMLayer`, `GRULayer`, or any network from vectors of
`input_size` to vectors of `hidden_size` with a state that starts from zeros: `ResidualCell`, `TransformerCell`."""


class _Cell(Network):
    """One recurrent layer; its state is that of the layer."""

    leading_dims_agnostic = True

    def __init__(self, layer: RecurrentCell, name: str) -> None:
        super().__init__(TensorSpec((layer.input_size,)), name=name)
        self.layer = layer

    def forward(self, inputs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """One step, [..., input_size] to [..., hidden_size]."""
        new_state = self.layer(inputs, state if state else self.layer.initial_state(inputs))
        return new_state[0], new_state

    def unroll(self, inputs: Nest, state: Nest = (), is_first: Tensor | None = None) -> tuple[Nest, Nest]:
        """All steps in one call; see `Network.unroll`."""
        before = state if state else self.layer.initial_state(inputs.select(-2, 0))
        return self.layer.unroll(inputs, before, is_first)


@configurable
class LSTMCell(_Cell):
    """A long short-term memory layer, [B, input_size] to [B, hidden_size]; the state is (output, memory)."""

    def __init__(self, input_size: int, hidden_size: int, name: str = "LSTMCell") -> None:
        """Draws the weights.

        Args:
            input_size: length of the input vector.
            hidden_size: length of the output and of both states.
            name: of this network.
        """
        super().__init__(LSTMLayer(input_size, hidden_size), name)


@configurable
class GRUCell(_Cell):
    """A gated recurrent layer, [B, input_size] to [B, hidden_size]; the state is (output,)."""

    def __init__(self, input_size: int, hidden_size: int, name: str = "GRUCell") -> None:
        """Draws the weights.

        Args:
            input_size: length of the input vector.
            hidden_size: length of the output and state.
            name: of this network.
        """
        super().__init__(GRULayer(input_size, hidden_size), name)


@configurable
class ResidualCell(Network):
    """Adds to its output of the step before what a small network makes of it and the input; the state is that output.

    A model of how something changes, h' = h + f(h, x), is easier to learn so than by gates: at the start f is small, the
    output stays what it is, and an input moves it a little.
    """

    leading_dims_agnostic = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        layer_size: int | None = None,
        activation: Activation = F.silu,
        name: str = "ResidualCell",
    ) -> None:
        """Draws the weights.

        Args:
            input_size: length of the input vector.
            hidden_size: length of the output and state.
            layer_size: of the hidden layer of f; None is twice `hidden_size`.
            activation: of the hidden layer.
            name: of this network.
        """
        super().__init__(TensorSpec((input_size,)), TensorSpec((hidden_size,)), name)
        size = layer_size or 2 * hidden_size
        self.layer = FC(hidden_size + input_size, size, activation)
        self.change = FC(size, hidden_size, kernel_init_gain=0.1)

    def forward(self, inputs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """One step, [..., input_size] to [..., hidden_size]."""
        before = state if isinstance(state, Tensor) else inputs.new_zeros(*inputs.shape[:-1], self.change.output_size)
        output = before + self.change(self.layer(torch.cat([before, inputs], -1)))
        return output, output


@configurable
class Delay(Network):
    """Returns what it was given `delay` steps ago, zeros before that."""

    leading_dims_agnostic = True

    def __init__(self, input_tensor_spec: Nest | None = None, delay: int = 1, name: str = "Delay") -> None:
        """Keeps the settings.

        Args:
            input_tensor_spec: nest of specs of the input; None: to be given by ``copy(input_tensor_spec=...)``
                before the specs of this network are asked for, as containers do.
            delay: number of steps, at least 0.
            name: of this network.
        """
        if delay < 0:
            raise ValueError(f"{name}: delay must not be negative, got {delay}")
        super().__init__(input_tensor_spec, name=name)
        self._delay = delay

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        """The input of `delay` steps ago; the state is the tuple of the last `delay` inputs."""
        if self._delay == 0:
            return inputs, ()
        past = state if state else (nest.map_structure(torch.zeros_like, inputs),) * self._delay
        return past[0], (*past[1:], inputs)


@configurable
class AMPWrapper(Network):
    """Runs a network under automatic mixed precision, and returns 32-bit floats."""

    def __init__(self, enabled: bool, net: Network, name: str = "AMPWrapper") -> None:
        """Keeps the network.

        Args:
            enabled: False runs the network as it is.
            net: the network.
            name: of this network.
        """
        super().__init__(net.input_tensor_spec, name=name)
        self.net = net
        self._enabled = enabled

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        """Output and state of the network."""
        if not self._enabled:
            return self.net(inputs, state)
        device = nest.flatten(inputs)[0].device.type
        with torch.autocast(device, torch.float16 if device == "cuda" else torch.bfloat16):
            result = self.net(inputs, state)
        output, state = map_params(_to_float32, result)
        return output, state


def _to_float32(x: Tensor) -> Tensor:
    return x.float() if x.is_floating_point() else x
