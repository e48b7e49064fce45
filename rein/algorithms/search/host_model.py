"""Small fully connected models as lists of steps that compiled code runs beside the tree.

For a model of some ten thousand weights, calling torch for each simulation takes several times what the products take. Its
layers are written down once, with their weights, and the search needs no call of Python at all.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

FULLY_CONNECTED, ONE_HOT, MIN_MAX, NARROW = 0, 1, 2, 3
"""Kinds of steps; a narrow layer is a fully connected one with few outputs, whose weights are kept by output."""
_NARROWEST = 16
ACTIVATIONS = {"identity": 0, "relu": 1, "tanh": 2}


class HostProgram(NamedTuple):
    """A model in numbers. Places are offsets into the memory of one row, -1 for what the model does not give."""

    steps: Array
    """int64 [n, 8]: kind, input place and size, output place and size, places of weight and bias, activation."""
    weights: Array
    """float32, all weights and biases in a row."""
    latent: int
    """Where the latent is read; the one-hot action follows where the steps say."""
    next_latent: int
    value: int
    reward: int
    logits: int
    game_over: int
    """Place of the logit of the end."""
    threshold: float
    """The game is over where the logit is greater."""


class Block(NamedTuple):
    """Some numbers in the memory of a row."""

    place: int
    size: int


class HostModelBuilder:
    """Writes down the steps of a model in the order in which they are computed.

    >>> import torch
    >>> steps = HostModelBuilder(latent_size=2, num_actions=3)
    >>> latent = steps.fully_connected(steps.latent_and_action, torch.zeros(2, 5), torch.ones(2), "relu")
    >>> value = steps.fully_connected(latent, torch.ones(1, 2), None)
    >>> logits = steps.fully_connected(latent, torch.zeros(3, 2), None)
    >>> program = steps.finish(next_latent=latent, value=value, logits=logits)
    >>> program.steps.shape, program.value
    ((4, 8), 7)
    """

    def __init__(self, latent_size: int, num_actions: int) -> None:
        """Starts with the latent and the one-hot action, side by side in memory.

        Args:
            latent_size: length of the latent.
            num_actions: number of actions.
        """
        self.memory_size = latent_size + num_actions
        self.latent_and_action = Block(0, self.memory_size)
        self._steps = [[ONE_HOT, 0, 0, latent_size, num_actions, -1, -1, 0]]
        self._weights: list[Array] = []
        self._num_weights = 0

    def fully_connected(
        self, source: Block, weight: Tensor, bias: Tensor | None, activation: str = "identity"
    ) -> Block:
        """A layer.

        Args:
            source: its input.
            weight: [out, in].
            bias: [out] or None.
            activation: a key of `ACTIVATIONS`.
        """
        out, into = weight.shape
        if into != source.size:
            raise ValueError(f"a layer from {into} numbers cannot read {source.size}")
        target = self._reserve(out)
        # Loops run over the longer side.
        kind = NARROW if out < min(_NARROWEST, into) else FULLY_CONNECTED
        matrix = weight.detach() if kind == NARROW else weight.detach().t()
        at = self._keep(matrix.contiguous().numpy())
        bias_at = -1 if bias is None else self._keep(bias.detach().contiguous().numpy())
        self._steps.append([kind, source.place, source.size, target.place, out, at, bias_at, ACTIVATIONS[activation]])
        return target

    def min_max(self, source: Block) -> Block:
        """The numbers scaled to [0, 1] by the smallest and the largest of them."""
        target = self._reserve(source.size)
        self._steps.append([MIN_MAX, source.place, source.size, target.place, source.size, -1, -1, 0])
        return target

    def finish(
        self,
        next_latent: Block,
        value: Block,
        logits: Block,
        reward: Block | None = None,
        game_over: Block | None = None,
        threshold: float = 0.0,
    ) -> HostProgram:
        """The program; see `HostProgram` for what the blocks are."""
        return HostProgram(
            steps=np.array(self._steps, np.int64),
            weights=np.concatenate(self._weights).astype(np.float32, copy=False),
            latent=0,
            next_latent=next_latent.place,
            value=value.place,
            reward=-1 if reward is None else reward.place,
            logits=logits.place,
            game_over=-1 if game_over is None else game_over.place,
            threshold=float(threshold),
        )

    def _reserve(self, size: int) -> Block:
        block = Block(self.memory_size, size)
        self.memory_size += size
        return block

    def _keep(self, values: Array) -> int:
        at = self._num_weights
        self._weights.append(values.reshape(-1))
        self._num_weights += values.size
        return at
