"""Networks of parts that are composed by name: encoders of any observation, and inputs with goals."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rein import nest
from rein.config import get_config_value
from rein.nest import Nest
from rein.networks import EmbeddingPreprocessor, EncodingNetwork, ImageEncodingNetwork, NestConcat, Network
from rein.networks.layers import identity
from rein.specs import TensorSpec

_LARGE_IMAGES = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # Mnih et al. 2015
_SMALL_IMAGES = ((16, 3, 2), (32, 3, 2))
_LARGE, _SMALL = 36, 7
_COMBINERS = ("preprocessing_combiner", "observation_preprocessing_combiner")


def make_encoder(observation_spec: Nest, hidden_layers: Sequence[int], last_layer_size: int | None = None) -> Network:
    """A network from observations to vectors: images by convolutions, whole numbers by embedding, parts of a nest together.

    Args:
        observation_spec: nest of specs of vectors, images [C, H, W] and bounded whole numbers.
        hidden_layers: sizes of the fully connected layers; the first is also that of embeddings.
        last_layer_size: size of a further layer without activation.
    """
    paths = nest.flatten_with_paths(observation_spec)
    size = hidden_layers[0] if hidden_layers else last_layer_size or 64
    preprocessors = [_preprocessor(path, spec, size) for path, spec in paths]
    is_plain = isinstance(observation_spec, TensorSpec)
    return EncodingNetwork(
        observation_spec,
        input_preprocessors=None if not any(preprocessors) else nest.pack_sequence_as(observation_spec, preprocessors),
        preprocessing_combiner=None if is_plain else NestConcat(),
        fc_layer_params=tuple(hidden_layers),
        last_layer_size=last_layer_size,
        last_activation=None if last_layer_size is None else identity,
    )


def is_continuous(specs: Nest) -> bool:
    """Whether all of a nest of specs are of real numbers, so that they can be normalized and predicted."""
    return all(spec.is_continuous for spec in nest.flatten(specs))


def _preprocessor(path: str, spec: TensorSpec, size: int) -> Network | None:
    where = f"observation {path!r}" if path else "the observation"
    if spec.is_discrete and spec.ndim == 0:
        return EmbeddingPreprocessor(spec, size)
    if spec.is_continuous and spec.ndim == 1:
        return None
    if spec.ndim == 3:
        side = min(spec.shape[1:])
        if side < _SMALL:
            raise ValueError(
                f"{where} is {spec}: images need sides of at least {_SMALL}; flatten it in the environment"
            )
        layers = _LARGE_IMAGES if side >= _LARGE else _SMALL_IMAGES
        return ImageEncodingNetwork(spec, layers, flatten_output=True)
    raise ValueError(f"{where} is {spec}: only vectors, images and whole numbers are encoded; flatten it first")


def with_combined_inputs(algorithm_ctor: Callable[..., Any]) -> Callable[..., Any]:
    """A constructor of the same algorithm whose networks put the parts of a nested observation together.

    Networks that were given a combiner keep it.

    Args:
        algorithm_ctor: an algorithm, or a partial of one.

    Raises:
        ValueError: the algorithm does not make networks that could.
    """
    _, given = _unpacked(algorithm_ctor)
    changed = {}
    for name, owner in parameter_owners(algorithm_ctor).items():
        if not name.endswith(("_network_ctor", "_network_cls", "algorithm_cls")):
            continue
        ctor = given[name] if name in given else get_config_value(f"{owner.__module__}.{owner.__qualname__}.{name}")
        if ctor is not None:
            combined = with_combined_inputs if name.endswith("algorithm_cls") else _combined
            changed[name] = combined(ctor)
    if not changed:
        name = constructor_name(algorithm_ctor)
        raise ValueError(f"{name} has no network that takes a goal beside the observation: use another algorithm")
    return partial(algorithm_ctor, **changed)


def parameter_owners(ctor: Callable[..., Any]) -> dict[str, Any]:
    """The parameters of a constructor, each with the class that declares it; those behind `**kwargs` too."""
    target, _ = _unpacked(ctor)
    owners: dict[str, Any] = {}
    for cls in getattr(target, "__mro__", (target,)):
        if isinstance(cls, type) and "__init__" not in vars(cls):
            continue
        parameters = inspect.signature(cls).parameters
        owners = {**dict.fromkeys(parameters, cls), **owners}
        if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
            break
    return owners


def constructor_name(ctor: Callable[..., Any]) -> str:
    """The name of a class or function, also of a partial of it."""
    target, _ = _unpacked(ctor)
    return getattr(target, "__name__", repr(target))


def _combined(network_ctor: Callable[..., Network]) -> Callable[..., Network]:
    cls, given = _unpacked(network_ctor)
    has = next((name for name in _COMBINERS if name in inspect.signature(cls).parameters), None)
    if has is None or given.get(has) or get_config_value(f"{cls.__module__}.{cls.__qualname__}.{has}"):
        return network_ctor
    return partial(network_ctor, **{has: NestConcat()})


def _unpacked(ctor: Callable[..., Any]) -> tuple[Any, dict[str, Any]]:
    """A class or function, and the keyword arguments that partials of it give."""
    given: dict[str, Any] = {}
    while isinstance(ctor, partial):
        given = {**ctor.keywords, **given}
        ctor = ctor.func
    return ctor, given
