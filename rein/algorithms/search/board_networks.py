"""Convolutional networks of `SimpleMCTSModel` for games on a board: the latent is a board of planes, [C, H, W].

A pattern is learnt once for all places, which fully connected layers have to learn at each place. A move is a learnt board of
planes that is added to the latent: a drop into a column, a stone on a point, a pass are all the same to it.
"""

import torch
from torch import Tensor, nn

from rein import nest
from rein.algorithms.search.simple_networks import SimplePredictionNet, min_max_normalized, seen_by_the_model
from rein.config import configurable
from rein.nest import Nest
from rein.networks import EncodingNetwork, Network
from rein.networks.layers import Conv2D, ResidueBlock, identity
from rein.specs import BoundedTensorSpec, TensorSpec

_MOVE_SCALE = 0.5
"""Standard deviation of the planes of moves at the start; latents are in [0, 1]."""


def _blocks(channels: int, number: int) -> nn.Sequential:
    return nn.Sequential(*(ResidueBlock(channels, channels, with_batch_normalization=False) for _ in range(number)))


def _scaled(planes: Tensor) -> Tensor:
    return min_max_normalized(planes.flatten(1)).view_as(planes)


class BoardEncodingNetwork(Network):
    """Encodes the planes of a board by convolutions that keep its size, and scales the result to [0, 1].

    Of a dictionary the fields that only the search uses (`valid_action_mask`, `steps`, `to_play`) are left out.
    """

    def __init__(
        self, input_tensor_spec: Nest, channels: int, num_blocks: int, name: str = "BoardEncodingNetwork"
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: spec of the board [planes, H, W], or a dictionary with one.
            channels: planes of the latent.
            num_blocks: residual blocks after the first convolution.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        boards = nest.flatten(seen_by_the_model(input_tensor_spec))
        if len(boards) != 1 or boards[0].ndim != 3:
            raise ValueError(
                f"{name}: needs one board [planes, rows, columns], got {input_tensor_spec}; fully connected networks "
                "(create_simple_encoding_net) take anything"
            )
        self.first = Conv2D(boards[0].shape[0], channels, 3, padding=1)
        self.blocks = _blocks(channels, num_blocks)

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Latents [B, channels, H, W] of boards [B, planes, H, W]."""
        (board,) = nest.flatten(seen_by_the_model(inputs))
        return _scaled(self.blocks(self.first(board.float()))), state


class BoardDynamicsNetwork(Network):
    """From a board of planes and a move to the next board, in [0, 1]."""

    def __init__(
        self,
        input_tensor_spec: tuple[TensorSpec, BoundedTensorSpec],
        num_blocks: int,
        name: str = "BoardDynamicsNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: specs of the latent [C, H, W] and of the move, a discrete scalar.
            num_blocks: residual blocks after the first convolution.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        latent, action = input_tensor_spec
        if not action.is_discrete or action.ndim != 0:
            raise ValueError(f"{name}: a move is one of a list of choices, but the action is {action}")
        self.lowest = int(action.minimum)
        self.moves = nn.Parameter(_MOVE_SCALE * torch.randn(action.num_values, *latent.shape))
        self.change = Conv2D(latent.shape[0], latent.shape[0], 3, identity, padding=1)
        self.blocks = _blocks(latent.shape[0], num_blocks)

    def forward(self, inputs: tuple[Tensor, Tensor], state: Nest = ()) -> tuple[Tensor, Nest]:
        """The next latents [B, C, H, W]."""
        latent, action = inputs
        moved = latent + self.moves[action.long() - self.lowest]
        # Most of a board stays as it is.
        return _scaled(self.blocks(torch.relu(latent + self.change(moved)))), state


@configurable
def create_board_encoding_net(observation_spec: Nest, channels: int = 32, num_blocks: int = 1) -> Network:
    """An encoder of boards for `SimpleMCTSModel`.

    Args:
        observation_spec: spec of the board [planes, H, W], or a dictionary with one.
        channels: planes of the latent.
        num_blocks: residual blocks, of two convolutions each.
    """
    return BoardEncodingNetwork(observation_spec, channels, num_blocks)


@configurable
def create_board_dynamics_net(input_tensor_spec: tuple[TensorSpec, BoundedTensorSpec], num_blocks: int = 1) -> Network:
    """A dynamics network of boards for `SimpleMCTSModel`.

    Args:
        input_tensor_spec: specs of the latent and of the move.
        num_blocks: residual blocks, of two convolutions each.
    """
    return BoardDynamicsNetwork(input_tensor_spec, num_blocks)


@configurable
def create_board_prediction_net(
    observation_spec: TensorSpec,
    action_spec: BoundedTensorSpec,
    head_channels: int = 16,
    hidden_size: int = 128,
    initial_game_over_bias: float = 0.0,
) -> Network:
    """A prediction network of boards for `SimpleMCTSModel`.

    Args:
        observation_spec: spec of the latent.
        action_spec: bounded spec of the move.
        head_channels: planes that a 1x1 convolution leaves for the fully connected layer.
        hidden_size: of that layer, from which value, reward, policy and end are read.
        initial_game_over_bias: initial logit of the end.
    """

    def trunk(input_tensor_spec: TensorSpec) -> Network:
        return EncodingNetwork(
            input_tensor_spec, conv_layer_params=((head_channels, 1, 1),), fc_layer_params=(hidden_size,)
        )

    return SimplePredictionNet(observation_spec, action_spec, trunk, initial_game_over_bias=initial_game_over_bias)
