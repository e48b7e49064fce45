"""A learnt vector in place of an integer, or an encoding of anything else: for `input_preprocessors`."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.nest import Nest
from rein.networks.encoding_networks import EncodingNetwork
from rein.networks.layers import FC, Embedding, identity
from rein.networks.layers.initializers import Activation
from rein.networks.network import Network
from rein.specs import BoundedTensorSpec, TensorSpec


@configurable
class EmbeddingPreprocessor(Network):
    """Maps a whole number, a vector or an image to a vector of `embedding_dim`."""

    leading_dims_agnostic = True

    def __init__(
        self,
        input_tensor_spec: TensorSpec,
        embedding_dim: int,
        conv_layer_params: Sequence[tuple[Any, ...]] | None = None,
        fc_layer_params: Sequence[int] | None = None,
        activation: Activation = torch.relu_,
        last_activation: Activation = identity,
        name: str = "EmbeddingPreprocessor",
    ) -> None:
        """Builds the embedding.

        Args:
            input_tensor_spec: a bounded scalar of integer type (one learnt vector for each value), or anything of
                float type (convolutional layers if given, then fully connected ones).
            embedding_dim: length of the output.
            conv_layer_params: see `ImageEncodingNetwork`; for images.
            fc_layer_params: sizes of the hidden layers.
            activation: of the hidden layers.
            last_activation: of the output.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        self._lowest = 0
        if input_tensor_spec.is_discrete:
            if not isinstance(input_tensor_spec, BoundedTensorSpec) or input_tensor_spec.ndim != 0:
                raise ValueError(f"{name}: only bounded integer scalars can be embedded, got {input_tensor_spec}")
            if conv_layer_params:
                raise ValueError(f"{name}: conv_layer_params do not apply to an integer input")
            self._lowest = int(input_tensor_spec.minimum)
            sizes = [*(fc_layer_params or ()), embedding_dim]
            self.embedding: nn.Module | None = Embedding(input_tensor_spec.num_values, sizes[0])
            layers: list[nn.Module] = []
            for i in range(1, len(sizes)):
                act = last_activation if i == len(sizes) - 1 else activation
                layers.append(FC(sizes[i - 1], sizes[i], act))
            self.layers = nn.Sequential(*layers)
        else:
            self.embedding = None
            self.encoder = EncodingNetwork(
                input_tensor_spec,
                conv_layer_params=conv_layer_params,
                fc_layer_params=fc_layer_params,
                activation=activation,
                last_layer_size=embedding_dim,
                last_activation=last_activation,
            )

    def forward(self, inputs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Maps [..., *shape] to [..., embedding_dim]."""
        if self.embedding is None:
            return self.encoder(inputs)[0], state
        return self.layers(self.embedding(inputs - self._lowest)), state
