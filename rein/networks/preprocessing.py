"""Turn a nested input into one tensor before the trunk of a network."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from rein import nest
from rein.nest import Nest
from rein.networks.construction import copy_module
from rein.networks.dry_run import find_specs
from rein.networks.item_paths import get_item, item_paths, pack_items
from rein.networks.layers import Lambda, Layer, NestCombiner, identity
from rein.networks.network import Network
from rein.specs import TensorSpec


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
