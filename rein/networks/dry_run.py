"""Find out what a network returns by calling it once on values near zero, leaving no trace."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from rein import nest
from rein.distributions.base import Distribution
from rein.distributions.params import DistributionSpec, extract_spec
from rein.nest import Nest
from rein.specs import BoundedTensorSpec

_BATCH_SIZE = 2


def device_of(module: nn.Module) -> torch.device | None:
    """The device of the first parameter or buffer, None if there is neither."""
    for tensor in (*module.parameters(), *module.buffers()):
        return tensor.device
    return None


@contextmanager
def undisturbed(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradient; random generators, buffers and modes are as before afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    device = device_of(module)
    devices = [device] if device is not None and device.type == "cuda" else []
    with torch.no_grad(), torch.random.fork_rng(devices=devices):
        try:
            module.eval()
            yield
        finally:
            for part, training in modes:
                part.training = training
            for buffer, saved in buffers:
                buffer.copy_(saved)


def find_specs(network: nn.Module, input_spec: Nest, state_spec: Nest | None) -> tuple[Nest, Nest]:
    """The specs of what `network` returns.

    Args:
        network: called as ``network(inputs, state)``.
        input_spec: nest of specs of the input.
        state_spec: nest of specs of the state; None: `()` is passed, and the state found.

    Returns:
        Specs of the output and of the state.
    """
    device = device_of(network)

    def nearest_to_zero(spec: Any) -> Tensor:
        value = torch.zeros(_BATCH_SIZE, *spec.shape, dtype=spec.dtype, device=device)
        if (
            isinstance(spec, BoundedTensorSpec) and spec.dtype != torch.bool
        ):  # an embedding of the whole numbers from 3 has no row for 0
            low, high = (torch.tensor(bound, device=device) for bound in (spec.minimum, spec.maximum))
            value = value.clamp(low, high).to(spec.dtype)
        return value

    with undisturbed(network):
        state = () if state_spec is None else nest.map_structure(nearest_to_zero, state_spec)
        output, state = network(nest.map_structure(nearest_to_zero, input_spec), state)
    return extract_spec(output), extract_spec(state)


def holds_distribution(spec: Nest) -> bool:
    """Whether a nest of specs has that of a distribution."""
    return any(isinstance(leaf, DistributionSpec) for leaf in nest.flatten(spec))


def combine_tensors(function: Callable[..., Tensor], *values: Nest) -> Nest:
    """Applies `function` to the corresponding tensors of nests, distributions' parameters included."""

    def apply(*leaves: Any) -> Any:
        first = leaves[0]
        if not isinstance(first, Distribution):
            return function(*leaves)
        params = nest.map_structure(function, *(leaf.params for leaf in leaves))
        return first.recipe.build(params)

    return nest.map_structure(apply, *values)
