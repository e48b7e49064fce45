"""Small fully connected models as lists of steps that compiled code runs beside the tree.

For a model of some ten thousand weights, calling torch for each simulation takes several times what the products take. Its
layers are written down once, with their weights, and the search needs no call of Python at all.

Weights are packed by panels of `LANES` outputs: the weights of all inputs, one after the other, each for all outputs of the
panel. Sizes are rounded up, with zeros: to `LANES` for outputs, to 4 for inputs. Layers of few outputs that read the same
numbers share a panel.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

FULLY_CONNECTED, ACTIVATION, MIN_MAX = 0, 1, 2
"""Kinds of steps."""
LANES = 16
ACTIVATIONS = {"identity": 0, "relu": 1, "tanh": 2}


class HostProgram(NamedTuple):
    """A model in numbers. Places are offsets into the memory of one row, -1 for what the model does not give.

    The latent is at place 0. What is said about a root, whose latent is put at `next_latent`, are the steps from `root_step`
    on: a model that gives a program promises that its `initial_predict` computes the same.
    """

    steps: Array
    """int64 [n, 9]: kind, input place and size, output place and size, places of weight and bias, activation, place of the
    weights of the one-hot action or -1."""
    weights: Array
    """float32, all weights and biases in a row."""
    memory_size: int
    latent_size: int
    num_actions: int
    root_step: int
    """The first step that depends on the next latent."""
    next_latent: int
    value: int
    reward: int
    reward_at_root: bool
    """Whether there is a reward at a root too; if not it is 0."""
    logits: int
    game_over: int
    """Place of the logit of the end."""
    threshold: float
    """The game is over where the logit is greater."""


class Block(NamedTuple):
    """Some numbers in the memory of a row."""

    place: int
    size: int


class _Packed(NamedTuple):
    """Where a matrix of weights goes."""

    source: Array
    """[out, in], a view of the parameter."""
    place: int
    inputs: int
    """Rows of a panel."""
    lane: int
    """The first output's place in its panel."""


class HostModelBuilder:
    """Writes down the steps of a model in the order in which they are computed.

    >>> import torch
    >>> steps = HostModelBuilder(latent_size=2, num_actions=3)
    >>> latent = steps.fully_connected(steps.latent_and_action, torch.zeros(2, 5), torch.ones(2), "relu")
    >>> value = steps.fully_connected(latent, torch.ones(1, 2), None)
    >>> logits = steps.fully_connected(latent, torch.zeros(3, 2), None)
    >>> program = steps.finish(next_latent=latent, value=value, logits=logits)
    >>> program.steps.shape, program.root_step, program.logits - program.value
    ((2, 9), 1, 1)
    """

    def __init__(self, latent_size: int, num_actions: int) -> None:
        """Starts with the latent and the one-hot action.

        Args:
            latent_size: length of the latent.
            num_actions: number of actions.
        """
        self.latent_and_action = Block(0, latent_size + num_actions)
        self._latent_size, self._num_actions = latent_size, num_actions
        self._memory_size = _rounded(latent_size, LANES)
        self._steps: list[list[int]] = []
        self._packed: list[_Packed] = []
        self._rows: list[tuple[Array, int, int]] = []
        self._copies: list[tuple[Array, Array]] = []
        self._num_weights = 0
        self._shared: dict[Block, tuple[list[int], int]] = {}

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
        if out < LANES and source != self.latent_and_action:
            return self._narrow(source, weight, bias, ACTIVATIONS[activation])
        inputs = self._latent_size if source == self.latent_and_action else into
        step = self._layer(source.place, inputs, out)
        self._pack(weight, bias, step, 0, inputs)
        if inputs < into:
            # Of the one-hot action one row is added, in place of a product.
            step[8] = self._reserve_weights(self._num_actions * step[4])
            self._rows.append((weight.detach().numpy()[:, inputs:].T, step[8], step[4]))
        step[7] = ACTIVATIONS[activation]
        return Block(step[3], out)

    def min_max(self, source: Block) -> Block:
        """The numbers scaled to [0, 1] by the smallest and the largest of them."""
        if source == self.latent_and_action:
            raise ValueError("the latent and the action are not beside each other: only layers can read both")
        place = self._reserve(source.size)
        self._steps.append([MIN_MAX, source.place, source.size, place, source.size, -1, -1, 0, -1])
        return Block(place, source.size)

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
        before: list[list[int]] = []
        after: list[list[int]] = []
        told = set[int]()
        for step in self._steps:
            depends = step[1] in told or (step[0] != ACTIVATION and step[1] == next_latent.place)
            (after if depends else before).append(step)
            if depends:
                told.update(range(step[3], step[3] + step[4]))
        weights = np.zeros(self._num_weights, np.float32)
        self._copies = self._plan_copies(weights)
        self.refresh()
        return HostProgram(
            steps=np.array(before + after, np.int64),
            weights=weights,
            memory_size=self._memory_size,
            latent_size=self._latent_size,
            num_actions=self._num_actions,
            root_step=len(before),
            next_latent=next_latent.place,
            value=value.place,
            reward=-1 if reward is None else reward.place,
            reward_at_root=reward is not None and reward.place in told,
            logits=logits.place,
            game_over=-1 if game_over is None else game_over.place,
            threshold=float(threshold),
        )

    def refresh(self) -> None:
        """Copies the weights into the program again; an optimizer may have changed them."""
        for target, source in self._copies:
            np.copyto(target, source)

    def _plan_copies(self, weights: Array) -> list[tuple[Array, Array]]:
        """Which parts of `weights` are copies of which parts of parameters."""
        copies = []
        for source, place, inputs, lane in self._packed:
            out, into = source.shape
            panels = weights[place : place + _rounded(lane + out, LANES) * inputs].reshape(-1, inputs, LANES)
            full = out // LANES
            if full:
                whole = source[: full * LANES].reshape(full, LANES, into)
                copies.append((panels[:full, :into], whole.transpose(0, 2, 1)))
            if full * LANES < out:
                rest = source[full * LANES :]
                copies.append((panels[full, :into, lane : lane + len(rest)], rest.T))
        for rows, place, width in self._rows:
            number, size = rows.shape
            copies.append((weights[place : place + number * width].reshape(number, width)[:, :size], rows))
        return copies

    def _narrow(self, source: Block, weight: Tensor, bias: Tensor | None, activation: int) -> Block:
        """A layer in the shared panel of its source, or in a new one."""
        out = len(weight)
        step, used = self._shared.get(source, ([], LANES))
        if used + out > LANES:
            step, used = self._layer(source.place, source.size, LANES), 0
        self._shared[source] = step, used + out
        self._pack(weight, bias, step, used, source.size)
        place = step[3] + used
        if activation:
            self._steps.append([ACTIVATION, place, out, place, out, -1, -1, activation, -1])
        return Block(place, out)

    def _layer(self, place: int, inputs: int, out: int) -> list[int]:
        """A step with room for its output and weights."""
        width, size = _rounded(out, LANES), _rounded(inputs, 4)
        step = [FULLY_CONNECTED, place, size, self._reserve(out), width, 0, 0, 0, -1]
        step[5], step[6] = self._reserve_weights(size * width), self._reserve_weights(width)
        self._steps.append(step)
        return step

    def _pack(self, weight: Tensor, bias: Tensor | None, step: list[int], lane: int, inputs: int) -> None:
        self._packed.append(_Packed(weight.detach().numpy()[:, :inputs], step[5], step[2], lane))
        if bias is not None:
            self._rows.append((bias.detach().numpy()[None], step[6] + lane, len(bias)))

    def _reserve(self, size: int) -> int:
        place = self._memory_size
        self._memory_size += _rounded(size, LANES)
        return place

    def _reserve_weights(self, number: int) -> int:
        place = self._num_weights
        self._num_weights += number
        return place


def _rounded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
