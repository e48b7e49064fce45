"""Check cheaply, at every call, that an input is what a network was built for."""

from typing import Any

import torch
from torch import Tensor

from rein import nest
from rein.nest import Nest
from rein.specs import TensorSpec


class _Leaf:
    """Shape and type of one tensor, laid out for a quick comparison."""

    __slots__ = ("dtype", "ndim", "shape")

    def __init__(self, spec: TensorSpec) -> None:
        self.shape = spec.shape
        self.ndim = spec.ndim
        self.dtype = spec.dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return _Leaf, (TensorSpec(self.shape, self.dtype),)


class InputCheck:
    """Compares shapes and types with a nest of specs; the message is made only when they differ."""

    def __init__(self, spec: Nest, owner: str) -> None:
        """Prepares the comparison.

        Args:
            spec: nest of specs, without leading dimensions.
            owner: name of the network, for messages.
        """
        self.spec = spec
        self.owner = owner
        self._plan = _plan(spec)

    def __call__(self, inputs: Nest) -> None:
        """Raises `ValueError` if `inputs` is not a batch of what the spec says."""
        if not _matches(inputs, self._plan):
            self._explain(inputs)

    def _explain(self, inputs: Nest) -> None:
        try:
            nest.assert_same_structure(self.spec, inputs)
        except ValueError as error:
            raise ValueError(f"{self.owner}: the input is not structured like input_tensor_spec: {error}") from None
        for (path, tensor), spec in zip(nest.flatten_with_paths(inputs), nest.flatten(self.spec), strict=True):
            where = f"input {path!r}" if path else "the input"
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"{self.owner}: {where} is a {type(tensor).__name__}; give a tensor of shape [B, {_sizes(spec)}]"
                )
            if _leaf_matches(tensor, _Leaf(spec)):
                continue
            got = f"shape {tuple(tensor.shape)} and {tensor.dtype}"
            want = f"shape (B, ...) + {tuple(spec.shape)} and {spec.dtype}"
            hint = ""
            if tensor.shape == spec.shape:
                hint = "; add a batch dimension in front"
            elif tensor.shape[tensor.ndim - spec.ndim :] == spec.shape:
                hint = f"; convert it with .to({spec.dtype})"
            raise ValueError(f"{self.owner}: {where} has {got}, expected {want}{hint}")


def _sizes(spec: TensorSpec) -> str:
    return ", ".join(map(str, spec.shape)) or "(scalar)"


def _plan(spec: Nest) -> Any:
    if isinstance(spec, TensorSpec):
        return _Leaf(spec)
    if isinstance(spec, tuple | list):
        return type(spec), [_plan(part) for part in spec]
    if isinstance(spec, dict):
        return type(spec), {key: _plan(part) for key, part in spec.items()}
    if not nest.is_nested(spec):
        raise TypeError(f"input_tensor_spec holds a {type(spec).__name__}: give a nest of TensorSpec")
    return type(spec), [_plan(part) for part in nest.flatten(spec)]


def _leaf_matches(tensor: Tensor, leaf: _Leaf) -> bool:
    shape = tensor.shape
    lead = len(shape) - leaf.ndim
    if lead < 1 or shape[lead:] != leaf.shape:
        return False
    if tensor.dtype is leaf.dtype:
        return True
    # Under autocast a network may get lower precision from the one before it.
    return tensor.is_floating_point() and leaf.dtype.is_floating_point and _autocasting(tensor)


def _autocasting(tensor: Tensor) -> bool:
    return torch.is_autocast_enabled(tensor.device.type)


def _matches(inputs: Nest, plan: Any) -> bool:
    if type(plan) is _Leaf:
        return isinstance(inputs, Tensor) and _leaf_matches(inputs, plan)
    kind, parts = plan
    if type(inputs) is not kind:
        return False
    if type(parts) is dict:
        return len(inputs) == len(parts) and all(
            key in inputs and _matches(inputs[key], part) for key, part in parts.items()
        )
    if not isinstance(inputs, tuple | list):
        inputs = nest.flatten(inputs)
    if len(inputs) != len(parts):
        return False
    for part, part_plan in zip(inputs, parts, strict=True):  # noqa: SIM110 - a generator is slower
        if not _matches(part, part_plan):
            return False
    return True
