"""Recurrent cells made of layers: one step at a time, or a whole sequence in one call."""

import itertools

import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.networks.layers.fc import FC
from rein.networks.layers.layer import Layer, check_sizes

CellState = tuple[Tensor, ...]


class _OrthogonalBlocks:
    """Fills each of `count` square blocks of a weight with an orthogonal matrix; picklable."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, weight: Tensor) -> None:
        for block in weight.chunk(self.count):
            nn.init.orthogonal_(block)


class RecurrentCell(Layer):
    """A step of a recurrent network: gates from the input and from the last output.

    The input part of the gates needs no state, so a sequence computes it in one product.
    """

    num_gates: int
    num_states: int

    def __init__(self, input_size: int, hidden_size: int, hidden_bias: bool) -> None:
        check_sizes(type(self).__name__, input_size=input_size, hidden_size=hidden_size)
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        gates = self.num_gates * hidden_size
        self.input_gates = FC(input_size, gates)
        self.hidden_gates = FC(
            hidden_size,
            gates,
            use_bias=hidden_bias,
            kernel_initializer=_OrthogonalBlocks(self.num_gates),
        )

    def initial_state(self, x: Tensor) -> CellState:
        """Zero states for the input `x` of [..., input_size]: each [..., hidden_size]."""
        zeros = x.new_zeros(*x.shape[:-1], self.hidden_size)
        return (zeros,) * self.num_states

    def advance(self, gates: Tensor, state: CellState) -> CellState:
        """The next state from the input's part of the gates [..., num_gates * hidden_size]."""
        raise NotImplementedError

    def forward(self, x: Tensor, state: CellState) -> CellState:
        """One step.

        Args:
            x: [..., input_size].
            state: tensors [..., hidden_size]; the first one is the output of the last step.

        Returns:
            The new state; its first tensor is the output.
        """
        return self.advance(self.input_gates(x), state)

    def unroll(self, x: Tensor, state: CellState, is_first: Tensor | None = None) -> tuple[Tensor, CellState]:
        """All steps of a sequence.

        Args:
            x: [..., B, T, input_size].
            state: before the first step, tensors [..., B, hidden_size].
            is_first: [..., B, T] bool, True where the state is zeroed before the step; None: nowhere.

        Returns:
            The outputs [..., B, T, hidden_size] and the state after the last step.
        """
        if x.ndim == 3 and isinstance(self.input_gates, FC):
            if is_first is None:
                return self.fused(x, state)
            if not torch.compiler.is_compiling():
                return self._unroll_segments(x, state, is_first)
        gates = self.input_gates(x).unbind(-2)
        keeps = None if is_first is None else (~is_first).unsqueeze(-1).unbind(-2)
        outputs = []
        for t, gate in enumerate(gates):
            if keeps is not None:
                state = tuple(part * keeps[t] for part in state)
            state = self.advance(gate, state)
            outputs.append(state[0])
        return torch.stack(outputs, -2), state

    def fused(self, x: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """All steps of [B, T, input_size] in one call of torch's kernel."""
        raise NotImplementedError

    def _unroll_segments(self, x: Tensor, state: CellState, is_first: Tensor) -> tuple[Tensor, CellState]:
        """Fused calls between the times at which any state of the batch is zeroed."""
        cuts = is_first.any(0).nonzero().flatten().tolist()
        bounds = sorted({0, *cuts, x.shape[1]})
        outputs = []
        for begin, end in itertools.pairwise(bounds):
            keep = (~is_first[:, begin]).unsqueeze(-1)
            y, state = self.fused(x[:, begin:end], tuple(part * keep for part in state))
            outputs.append(y)
        return torch.cat(outputs, 1), state

    def _weights(self) -> list[Tensor]:
        """Input weight, hidden weight, input bias, hidden bias, as torch's kernels want them."""
        into, hidden = self.input_gates, self.hidden_gates
        assert into.bias is not None
        hidden_bias = torch.zeros_like(into.bias) if hidden.bias is None else hidden.bias
        return [into.weight, hidden.weight, into.bias, hidden_bias]


@configurable
class LSTMLayer(RecurrentCell):
    """Long short-term memory: Hochreiter & Schmidhuber (1997) with the forget gate of Gers et al. (2000)."""

    num_gates = 4
    num_states = 2

    def __init__(self, input_size: int, hidden_size: int, forget_bias: float = 1.0) -> None:
        """Draws the weights.

        Args:
            input_size: length of the input vector.
            hidden_size: length of the output and of both states.
            forget_bias: initial bias of the forget gate; 1 remembers from the start.
        """
        super().__init__(input_size, hidden_size, hidden_bias=False)
        self.forget_bias = forget_bias
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the bias of the forget gate; the parts draw their own weights."""
        bias = self.input_gates.bias
        assert bias is not None
        with torch.no_grad():
            bias[self.hidden_size : 2 * self.hidden_size] = self.forget_bias

    def advance(self, gates: Tensor, state: CellState) -> CellState:
        """The next (output, memory) from the input's part of the gates."""
        hidden, memory = state
        gates = gates + self.hidden_gates(hidden)
        size = self.hidden_size
        enter, forget = torch.sigmoid(gates[..., : 2 * size]).chunk(2, -1)
        candidate = torch.tanh(gates[..., 2 * size : 3 * size])
        output = torch.sigmoid(gates[..., 3 * size :])
        memory = forget * memory + enter * candidate
        return output * torch.tanh(memory), memory

    def forward(self, x: Tensor, state: CellState) -> CellState:
        """One step, see `RecurrentCell`."""
        if x.ndim == 2 and isinstance(self.input_gates, FC):
            return torch.lstm_cell(x, state, *self._weights())
        return super().forward(x, state)

    def fused(self, x: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """All steps of [B, T, input_size] in one call of torch's kernel."""
        hidden, memory = (part.unsqueeze(0).contiguous() for part in state)
        y, hidden, memory = torch.lstm(x, (hidden, memory), self._weights(), True, 1, 0.0, self.training, False, True)
        return y, (hidden[0], memory[0])


@configurable
class GRULayer(RecurrentCell):
    """Gated recurrent unit: Cho et al. (2014), reset gate applied after the product as in cuDNN."""

    num_gates = 3
    num_states = 1

    def __init__(self, input_size: int, hidden_size: int) -> None:
        """Draws the weights.

        Args:
            input_size: length of the input vector.
            hidden_size: length of the output and state.
        """
        super().__init__(input_size, hidden_size, hidden_bias=True)

    def advance(self, gates: Tensor, state: CellState) -> CellState:
        """The next (output,) from the input's part of the gates."""
        (hidden,) = state
        size = self.hidden_size
        hidden_gates = self.hidden_gates(hidden)
        reset, keep = torch.sigmoid(gates[..., : 2 * size] + hidden_gates[..., : 2 * size]).chunk(2, -1)
        candidate = torch.tanh(gates[..., 2 * size :] + reset * hidden_gates[..., 2 * size :])
        return (torch.lerp(candidate, hidden, keep),)

    def forward(self, x: Tensor, state: CellState) -> CellState:
        """One step, see `RecurrentCell`."""
        if x.ndim == 2 and isinstance(self.input_gates, FC):
            return (torch.gru_cell(x, state[0], *self._weights()),)
        return super().forward(x, state)

    def fused(self, x: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """All steps of [B, T, input_size] in one call of torch's kernel."""
        y, hidden = torch.gru(
            x, state[0].unsqueeze(0).contiguous(), self._weights(), True, 1, 0.0, self.training, False, True
        )
        return y, (hidden[0],)
