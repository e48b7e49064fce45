"""Chains of layers that networks are built from."""

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn

from rein.networks.layers import FC, Layer, NoisyFC, identity
from rein.networks.layers.initializers import Activation, Initializer
from rein.specs import TensorSpec

LayerSizes = Sequence[int] | None
ConvLayerParams = Sequence[tuple[Any, ...]] | None

small_uniform: Initializer = functools.partial(nn.init.uniform_, a=-0.003, b=0.003)
"""Initial weights of a last layer whose outputs should start near zero."""


class Chain(Layer):
    """Layers applied one after another."""

    def __init__(self, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        for i, layer in enumerate(layers):
            self.add_module(str(i), layer)

    def forward(self, x: Tensor) -> Tensor:
        """Applies all layers."""
        for layer in self._modules.values():
            x = layer(x)  # type: ignore[misc]
        return x

    def __len__(self) -> int:
        return len(self._modules)


def fc_chain(
    input_size: int,
    sizes: LayerSizes,
    activation: Activation,
    kernel_initializer: Initializer | None = None,
    use_bn: bool = False,
    use_ln: bool = False,
    noisy: bool = False,
) -> Chain:
    """Fully connected layers of the given sizes.

    Args:
        input_size: length of the input vector.
        sizes: of the layers; None is no layer.
        activation: of each layer.
        kernel_initializer: fills a weight in place; None: by variance scaling.
        use_bn: batch normalization in each layer.
        use_ln: layer normalization in each layer.
        noisy: use `NoisyFC`.
    """
    layers: list[nn.Module] = []
    for size in sizes or ():
        if noisy:
            layers.append(NoisyFC(input_size, size, activation))
        else:
            layers.append(
                FC(
                    input_size,
                    size,
                    activation,
                    use_bn=use_bn,
                    use_ln=use_ln,
                    kernel_initializer=kernel_initializer,
                )
            )
        input_size = size
    return Chain(layers)


def vector_size(spec: TensorSpec, owner: str) -> int:
    """The length of the vectors that `spec` describes; anything else is refused."""
    if not spec.is_continuous:
        raise ValueError(
            f"{owner}: the input is {spec}; give an input preprocessor that makes floats of it, such as "
            "EmbeddingPreprocessor, OneHot or Cast"
        )
    if spec.ndim != 1:
        raise ValueError(
            f"{owner}: the input has shape {tuple(spec.shape)}; give conv_layer_params for an image, or an "
            "input preprocessor such as Flatten that makes a vector of it"
        )
    return int(spec.shape[0])


def last_fc(
    input_size: int,
    output_size: int,
    activation: Activation = identity,
    kernel_initializer: Initializer | None = None,
    use_bn: bool = False,
    use_ln: bool = False,
) -> FC:
    """The output layer of a network."""
    return FC(
        input_size,
        output_size,
        activation,
        use_bn=use_bn,
        use_ln=use_ln,
        kernel_initializer=kernel_initializer,
    )
