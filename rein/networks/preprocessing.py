"""Turn a nested input into one tensor before the trunk of a network."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rein import nest
from rein.config import configurable
from rein.nest import Nest
from rein.networks.construction import copy_module
from rein.networks.dry_run import find_specs
from rein.networks.item_paths import get_item, item_paths, pack_items
from rein.networks.layers import FC, Embedding, Lambda, Layer, NestCombiner, identity
from rein.networks.layers.initializers import Activation
from rein.networks.network import Network
from rein.specs import BoundedTensorSpec, TensorSpec


class InputPreprocessing(Layer):
    """Applies a preprocessor to each part of a nested input, then combines the results."""

    def __init__(
        self,
        input_tensor_spec: Nest,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[[Nest], Tensor] | None = None,
    ) -> None:
        """Copies the preprocessors, so that networks given the same ones do not share parameters.

        Args:
            input_tensor_spec: nest of specs of the input.
            input_preprocessors: nest of networks, modules or functions (None: leave as it is) with the
                structure of the input, or of an upper part of it. Singletons are not copied.
            preprocessing_combiner: makes one tensor of the nest of results.
        """
        super().__init__()
        if input_preprocessors is None:
            input_preprocessors = nest.map_structure(lambda _: None, input_tensor_spec)
        try:
            nest.flatten_up_to(input_preprocessors, input_tensor_spec)
        except ValueError as error:
            raise ValueError(f"input_preprocessors are not structured like input_tensor_spec: {error}") from None
        self._structure = nest.map_structure(lambda _: 0, input_preprocessors)
        self._paths = item_paths(self._structure)
        self.preprocessors = nn.ModuleList(_as_module(part) for part in nest.flatten(input_preprocessors))
        self.combiner = None if preprocessing_combiner is None else _as_module(preprocessing_combiner)
        self.output_spec, _ = find_specs(_Stateless(self), input_tensor_spec, None)

    def forward(self, inputs: Nest) -> Nest:
        """Maps a nest of [..., *shape] to one tensor, or to a nest if there is no combiner."""
        results = []
        for preprocessor, path in zip(self.preprocessors, self._paths, strict=True):
            result = preprocessor(get_item(inputs, path))
            results.append(result[0] if isinstance(preprocessor, Network) else result)
        combiner = self.combiner
        if isinstance(combiner, NestCombiner) and all(isinstance(x, Tensor) for x in results):
            return combiner.combine(results)
        combined = pack_items(self._structure, results)
        return combined if combiner is None else combiner(combined)


class _Stateless(nn.Module):
    """Gives a module the interface of a network, for the trial call."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, inputs: Nest, state: Nest) -> tuple[Nest, Nest]:
        return self.module(inputs), state


def _as_module(part: Any) -> nn.Module:
    if part is None:
        return Lambda(identity)
    if isinstance(part, Network) and part.is_rnn:
        raise ValueError(f"preprocessor {part.name} has a state; only stateless ones are allowed")
    if isinstance(part, nn.Module):
        return copy_module(part)
    if callable(part):
        return Lambda(part)
    raise TypeError(f"a preprocessor must be a module, a function or None, got {part!r}")


def make_preprocessing(
    input_tensor_spec: Nest,
    input_preprocessors: Nest,
    preprocessing_combiner: Callable[[Nest], Tensor] | None,
    owner: str,
) -> tuple[InputPreprocessing | None, TensorSpec]:
    """What turns the input into one tensor, None if it is one already, and the spec of that tensor."""
    has_nothing_to_do = input_preprocessors is None and preprocessing_combiner is None
    if isinstance(input_tensor_spec, TensorSpec) and has_nothing_to_do:
        return None, input_tensor_spec
    preprocessing = InputPreprocessing(input_tensor_spec, input_preprocessors, preprocessing_combiner)
    spec = preprocessing.output_spec
    if not isinstance(spec, TensorSpec):
        raise ValueError(
            f"{owner}: the input is a nest with {[path for path, _ in nest.flatten_with_paths(spec)]}; give a "
            "preprocessing_combiner such as NestConcat() to make one tensor of it"
        )
    return preprocessing, spec


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
        from rein.networks.encoding_networks import EncodingNetwork

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
