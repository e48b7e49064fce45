"""Encoders that fit an observation: what a network does with its input when nobody says anything.

| input | becomes |
|---|---|
| vector of floats | itself |
| number of floats | a vector of one |
| whole numbers with few values: Discrete, MultiDiscrete, boards | one-hot codes |
| a whole number with many values | a learnt vector |
| other whole numbers | divided by their limit; those without limits as signed logarithms |
| bools, MultiBinary | 0 and 1 |
| images of any layout and type, from 10 pixels up | a convolutional network, then a layer of 256 |
| smaller grids | their numbers; those of bytes as binary digits, since they may be codes |
| Dict, Tuple | the parts one after the other |

`[C, H, W]`, `[H, W, C]`, `[H, W]` and stacks of frames `[N, ...]` are images; the smaller of the first and the last dimension
is that of the channels. From 36 pixels up the layers are those of Mnih et al. (2015), below those of Espeholt et al. (2018,
"IMPALA") with two stages.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rein import nest
from rein.nest import Nest
from rein.networks.chains import Chain, ConvLayerParams
from rein.networks.image_networks import ImageEncodingNetwork, MaxPool2D
from rein.networks.layers import (
    FC,
    Cast,
    Conv2D,
    Embedding,
    Flatten,
    NestConcat,
    Permute,
    Reshape,
    ResidueBlock,
    Scale,
)
from rein.networks.layers.codes import Bits, OneHotCodes
from rein.networks.layers.layer import Layer
from rein.networks.network import Network
from rein.specs import BoundedTensorSpec, TensorSpec

NATURE_LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
IMPALA_CHANNELS = (16, 32)
_NATURE_SIDE, _IMAGE_SIDE = 36, 10
_FEATURES = 256
_MOST_CODES = 1024
"""Longest one-hot codes of an observation."""
_MOST_VALUES_IN_IMAGE = 32
"""An image whose numbers have no more values than this holds codes, not light."""
_MOST_EMBEDDED = 1_000_000
_EMBEDDING_SIZE = 64


class SpecEncoder(Chain):
    """The layers chosen for one array, and the choice in words."""

    def __init__(self, layers: Sequence[nn.Module], choice: str, has_convolutions: bool = False) -> None:
        super().__init__(layers)
        self.choice = choice
        self.has_convolutions = has_convolutions


def fitting_inputs(
    spec: Nest,
    input_preprocessors: Nest,
    preprocessing_combiner: Callable[[Nest], Tensor] | None,
    conv_layer_params: ConvLayerParams = None,
) -> tuple[Nest, Callable[[Nest], Tensor] | None]:
    """Preprocessors and combiner for an input: those given, or if there are none, encoders that fit its spec.

    Args:
        spec: nest of specs of the input.
        input_preprocessors: as given.
        preprocessing_combiner: as given.
        conv_layer_params: as given; layers for an image are a choice too.
    """
    if input_preprocessors is not None or preprocessing_combiner is not None or conv_layer_params:
        return input_preprocessors, preprocessing_combiner
    if isinstance(spec, TensorSpec):
        return encoder_for(spec), None
    encoders = nest.map_structure(encoder_for, spec)
    if not nest.flatten(spec):
        return None, None
    return encoders, NestConcat()


def encoder_for(spec: TensorSpec) -> SpecEncoder | None:
    """An encoder from [..., *shape] to vectors of floats; None for what is one already.

    Args:
        spec: of one array.
    """
    if spec.is_continuous and spec.ndim == 1:
        return None
    image = _image(spec)
    if image is not None:
        return image
    if spec.is_continuous:
        return SpecEncoder([Flatten(spec.ndim)], "flattened")
    if spec.dtype == torch.bool:
        return SpecEncoder([Flatten(spec.ndim), Cast()], "as 0 and 1")
    return _whole_numbers(spec)


class ImageEncoders(Network):
    """Makes a vector of features of each image in an observation, and leaves the rest as it is."""

    leading_dims_agnostic = True

    def __init__(self, input_tensor_spec: Nest, name: str = "ImageEncoders") -> None:
        """Chooses an encoder for each image, see `encoder_for`.

        Args:
            input_tensor_spec: nest of specs of the observation.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        chosen = [encoder_for(spec) for spec in nest.flatten(input_tensor_spec)]
        self.encoders = nn.ModuleList(
            one if one is not None and one.has_convolutions else nn.Identity() for one in chosen
        )

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        """Maps a nest of [..., *shape] to a nest of the same structure, with [..., 256] where an image was."""
        parts = zip(self.encoders, nest.flatten(inputs), strict=True)
        return nest.pack_sequence_as(self._input_tensor_spec, [encode(part) for encode, part in parts]), state

    @property
    def output_spec(self) -> Nest:
        """Specs of the output; those of what is left as it is keep their bounds."""
        found = zip(
            self.encoders, nest.flatten(self._input_tensor_spec), nest.flatten(super().output_spec), strict=True
        )
        chosen = [before if isinstance(one, nn.Identity) else after for one, before, after in found]
        return nest.pack_sequence_as(self._input_tensor_spec, chosen)


def shared_image_encoders(observation_spec: Nest, networks: Sequence[Network]) -> ImageEncoders | None:
    """Encoders that networks of one observation can share.

    Args:
        observation_spec: what the networks observe.
        networks: built for that observation.

    Returns:
        Fresh encoders, for networks that are then built for their `output_spec`; None if there are no images, or if one of
        the networks was told what to do with them.
    """
    counts = {sum(_is_image_encoder(part) for part in network.modules()) for network in networks}
    encoders = ImageEncoders(observation_spec)
    images = sum(_is_image_encoder(part) for part in encoders.encoders)
    return encoders if images and counts == {images} else None


def with_shared_encoders(observation_spec: Nest, make: Callable[[Nest], tuple[Network | None, ...]]) -> tuple[Any, ...]:
    """Networks, and in front of them the encoders that they share, or None: see `shared_image_encoders`.

    Args:
        observation_spec: of what is observed.
        make: builds the networks, some of them maybe None, for the spec of what they get to see of an observation.
    """
    networks = make(observation_spec)
    encoders = shared_image_encoders(observation_spec, [one for one in networks if one is not None])
    return (None, *networks) if encoders is None else (encoders, *make(encoders.output_spec))


def _is_image_encoder(module: nn.Module) -> bool:
    return isinstance(module, SpecEncoder) and module.has_convolutions


def encoding_choices(network: Network) -> dict[str, str]:
    """What was chosen for the inputs of a network that says nothing about them, in words, by their paths."""
    paths = nest.flatten_with_paths(network.input_tensor_spec)
    if isinstance(network, ImageEncoders):
        pairs = zip(paths, network.encoders, strict=True)
        return {path: part.choice for (path, _), part in pairs if isinstance(part, SpecEncoder)}
    chosen = [part.choice for part in network.modules() if isinstance(part, SpecEncoder)]
    needing = [path for path, spec in paths if not (spec.is_continuous and spec.ndim == 1)]
    return dict(zip(needing, chosen, strict=True)) if len(needing) == len(chosen) else {}


# Whole numbers -------------------------------------------------------------------------------------------------------


def _whole_numbers(spec: TensorSpec) -> SpecEncoder:
    flat: list[nn.Module] = [Flatten(spec.ndim)]
    if not isinstance(spec, BoundedTensorSpec):
        return SpecEncoder([*flat, _SignedLog()], "as signed logarithms")
    low, high = _limits(spec)
    counts = high - low + 1
    if low.min() == 0 and high.max() == 1:
        return SpecEncoder([*flat, Cast()], "as 0 and 1")
    if counts.sum() <= _MOST_CODES and not _is_byte(spec):
        codes = OneHotCodes(low.reshape(-1), high.reshape(-1))
        return SpecEncoder([*flat, codes], f"one-hot {codes.size}")
    if spec.ndim == 0 and counts <= _MOST_EMBEDDED:
        layers = [_Shift(int(low)), Embedding(int(counts), _EMBEDDING_SIZE)]
        return SpecEncoder(layers, f"embedding of {int(counts)} values in {_EMBEDDING_SIZE}")
    scaling = _scaling(spec)
    if not scaling:
        return SpecEncoder([*flat, _SignedLog()], "as signed logarithms")
    return SpecEncoder([*flat, Cast(), *scaling], "scaled to [-1, 1]")


class _Shift(Layer):
    """Subtracts a constant."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first

    def forward(self, x: Tensor) -> Tensor:
        return x - self.first


class _SignedLog(Layer):
    """`sign(x) log(1 + |x|)`: whole numbers of any size in a range that networks can work with."""

    def forward(self, x: Tensor) -> Tensor:
        amount = x.to(torch.float32)
        return amount.sign() * amount.abs().log1p()


def _limits(spec: BoundedTensorSpec) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Bounds in floats, whose differences cannot overflow."""
    return spec.minimum.astype(np.float64), spec.maximum.astype(np.float64)


def _is_byte(spec: BoundedTensorSpec) -> bool:
    return spec.dtype == torch.uint8 and bool((spec.maximum == 255).all())


def _scaling(spec: TensorSpec) -> list[nn.Module]:
    """What brings bounded numbers into [-1, 1]; nothing for those that are there already or have no limits."""
    if not isinstance(spec, BoundedTensorSpec):
        return []
    largest = float(np.abs(np.stack(_limits(spec))).max())
    return [Scale(1 / largest)] if 1 < largest < 1e9 else []


# Images --------------------------------------------------------------------------------------------------------------


def _image(spec: TensorSpec) -> SpecEncoder | None:
    """The encoder of an image or a grid; None for what is neither."""
    if spec.ndim not in (2, 3, 4) or spec.dtype == torch.bool:
        return None
    layers, (channels, height, width), order = _channels_first(tuple(spec.shape))
    side = min(height, width)
    if spec.ndim == 2 and side < _NATURE_SIDE:
        return None
    codes = _image_codes(spec, order, channels)
    if codes is not None:
        layers.append(codes)
        channels, text = codes.size, f"one-hot {codes.size} x {height} x {width}"
    elif side < _IMAGE_SIDE:
        if not isinstance(spec, BoundedTensorSpec) or not _is_byte(spec):
            return None
        return SpecEncoder([*layers, Bits(-3), Flatten(3)], f"bits of {channels} x {height} x {width} bytes")
    else:
        layers += [Cast(), *_scaling(spec)] if not spec.is_continuous else _scaling(spec)
        text = f"image {channels} x {height} x {width}"
    if side < _IMAGE_SIDE:
        return SpecEncoder([*layers, Flatten(3)], text)
    convolutions, size = _convolutions(channels, height, width)
    kind = "Nature" if side >= _NATURE_SIDE else "IMPALA"
    return SpecEncoder([*layers, *convolutions, FC(size, _FEATURES, torch.relu_)], f"{text}, {kind} CNN", True)


def _channels_first(shape: tuple[int, ...]) -> tuple[list[nn.Module], tuple[int, int, int], tuple[int, ...]]:
    """Layers that make [C, H, W] of an image, its sizes, and the order of dimensions before stacks are joined."""
    if len(shape) == 2:
        return [Reshape((1, *shape), input_dims=2)], (1, *shape), (0, 1)
    lead = len(shape) - 3
    first, last = shape[lead], shape[-1]
    order = tuple(range(len(shape)))
    layers: list[nn.Module] = []
    if last < first:
        order = (*range(lead), len(shape) - 1, lead, lead + 1)
        layers.append(Permute(*order))
    sizes = [shape[i] for i in order]
    joined = (int(np.prod(sizes[: lead + 1])), sizes[-2], sizes[-1])
    if lead:
        layers.append(Reshape(joined, input_dims=len(shape)))
    return layers, joined, order


def _image_codes(spec: TensorSpec, order: tuple[int, ...], channels: int) -> OneHotCodes | None:
    """One-hot codes of the channels of an image of whole numbers with few values."""
    if spec.is_continuous or not isinstance(spec, BoundedTensorSpec):
        return None
    low, high = (bound.transpose(order).reshape(channels, -1) for bound in (spec.minimum, spec.maximum))
    lowest, highest = low.astype(np.int64).min(-1), high.astype(np.int64).max(-1)
    if (highest - lowest >= _MOST_VALUES_IN_IMAGE).any():
        return None
    return OneHotCodes(lowest, highest, dim=-3)


def _convolutions(channels: int, height: int, width: int) -> tuple[list[nn.Module], int]:
    """Convolutional layers for an image, and the number of their outputs."""
    if min(height, width) >= _NATURE_SIDE:
        network = ImageEncodingNetwork(TensorSpec((channels, height, width)), NATURE_LAYERS, flatten_output=True)
        return list(network.layers._modules.values()), network.output_spec.numel  # type: ignore[arg-type]
    layers: list[nn.Module] = []
    for filters in IMPALA_CHANNELS:
        layers += [
            Conv2D(channels, filters, 3, padding=1, channels_last=not layers),
            MaxPool2D(2),
            ResidueBlock(filters, filters, with_batch_normalization=False),
        ]
        channels, height, width = filters, height // 2, width // 2
    return [*layers, Flatten(3)], channels * height * width
