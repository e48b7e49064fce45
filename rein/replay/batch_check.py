"""Checks of batches that are quick when nothing is wrong."""

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from rein import nest
from rein.nest import Nest
from rein.specs import check_matches

__all__ = ["BatchCheck"]

_MAX_GUARDS = 64


class BatchCheck:
    """Checks batches against a spec, and remembers what good ones look like."""

    def __init__(self, data_spec: Nest, device: torch.device, name: str) -> None:
        """Checks for a buffer.

        Args:
            data_spec: nest of specs of one step.
            device: where the tensors shall be.
            name: of the buffer, for messages.
        """
        self._data_spec, self._device, self._name = data_spec, device, name
        self._structure = nest.structure_of(data_spec)
        self._specs = nest.flatten(data_spec)
        self._is_cpu = device.type == "cpu"
        self._guards: dict[int, Any] = {}
        self._rollout_guards: dict[tuple[int, int], Any] = {}
        self._num_guards = 0

    def check(self, batch: Nest, size: int) -> list[Tensor]:
        """The tensors of a batch, contiguous and on the device.

        Args:
            batch: nest of tensors [size, ...].
            size: number of steps.

        Raises:
            ValueError: naming the path at which structure, shape or dtype are wrong.
            TypeError: if something is not a tensor.
        """
        return self.check_leaves(self.flatten(batch), size)

    def flatten(self, batch: Nest) -> list[Any]:
        """The leaves of a batch that has the structure of the spec."""
        try:
            return self._structure.flatten_up_to(batch)
        except ValueError:
            nest.assert_same_structure(self._data_spec, batch)
            raise

    def check_leaves(self, leaves: list[Any], size: int) -> list[Tensor]:
        """What `check` does, once the batch is flattened."""
        guard = self._guards.get(size)
        if guard is not None and guard.check(*leaves):
            return leaves
        is_as_stored = self._is_cpu
        for index, (leaf, spec) in enumerate(zip(leaves, self._specs, strict=True)):
            if not isinstance(leaf, Tensor) or leaf.shape != (size, *spec.shape) or leaf.dtype is not spec.dtype:
                self._refuse(self._structure.unflatten(leaves), size)
            if not (self._is_cpu and leaf.is_cpu and leaf.is_contiguous()):
                is_as_stored = False
                leaves[index] = leaf.detach().to(self._device).contiguous()
        if is_as_stored and self._num_guards < _MAX_GUARDS:
            self._num_guards += 1
            self._guards[size] = _make_guard(leaves)
        return leaves

    def are_rows(self, leaves: list[Any], length: int, size: int) -> bool:
        """Whether tensors [length, size, ...] are as they are stored, one step after the other.

        Args:
            leaves: of a flattened batch.
            length: number of steps of each environment.
            size: number of environments.
        """
        guard = self._rollout_guards.get((length, size))
        if guard is not None and guard.check(*leaves):
            return True
        for leaf, spec in zip(leaves, self._specs, strict=True):
            is_right = (
                isinstance(leaf, Tensor) and leaf.shape == (length, size, *spec.shape) and leaf.dtype is spec.dtype
            )
            if not (is_right and self._is_cpu and leaf.is_cpu and leaf.is_contiguous()):
                return False
        if self._num_guards < _MAX_GUARDS:
            self._num_guards += 1
            self._rollout_guards[length, size] = _make_guard(leaves)
        return True

    def _refuse(self, batch: Nest, size: int) -> NoReturn:
        what = f"the batch for {self._name}"
        for path, leaf in nest.flatten_with_paths(batch):
            if not isinstance(leaf, Tensor):
                raise TypeError(f"{what} has a {type(leaf).__name__} at {path!r}: give a tensor")
        check_matches(batch, self._data_spec, 1, what)
        sizes = {path: leaf.shape[0] for path, leaf in nest.flatten_with_paths(batch)}
        raise ValueError(f"{what} should hold {size} steps, one per environment in env_ids, but holds {sizes}")


def _make_guard(tensors: Sequence[Tensor]) -> Any:
    """An object whose `check` tells whether other tensors have the same shapes, strides, dtypes and devices.

    It is what torch.compile guards its graphs with: one call for all tensors costs a quarter of asking each. None if
    this version of torch has it not.
    """
    try:
        from torch._C._dynamo.guards import TensorGuards

        sizes: Any = [list(tensor.shape) for tensor in tensors]
        strides: Any = [list(tensor.stride()) for tensor in tensors]
        return TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
    except (ImportError, TypeError):
        return None
