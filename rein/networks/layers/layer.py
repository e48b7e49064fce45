"""What all layers share: any leading dimensions, and versions for many replicas at once.

A layer works on the *last* dimensions of its input, so that a replica dimension in front is only one more
batch dimension to it. The parallel version of a layer with parameters holds those of `n` replicas and takes
[n, ..., *input_shape]; layers without parameters serve any number of replicas as they are.
"""

import copy
from collections.abc import Sequence
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook


class QuickModule(nn.Module):
    """A module whose call goes straight to `forward` when no hook is registered.

    Small networks are called with small batches: what `nn.Module` does around `forward` then costs a tenth of
    all. Hooks, global ones too, work as usual.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `forward`, through the hooks if there are any."""
        if (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or _has_any_global_hook()  # type: ignore[no-untyped-call]
        ):
            return super().__call__(*args, **kwargs)
        return self.forward(*args, **kwargs)


class Layer(QuickModule):
    """A module that works on the last dimensions of its input and can be stacked with others like it."""

    @property
    def is_leading_dims_agnostic(self) -> bool:
        """Whether any number of dimensions may stand before those of one example."""
        return True

    def reset_parameters(self) -> None:
        """Draws new initial values for the parameters of this layer."""

    def new_parallel(self, n: int) -> "ParallelLayer | None":
        """A parallel layer for `n` layers like this one, its parameters to be filled in.

        None says that this layer has no parameters of its own: its children are stacked instead.
        """
        return None

    def copy(self) -> Self:
        """A layer like this one with newly drawn parameters."""
        return reinitialized_copy(self)

    def make_parallel(self, n: int) -> nn.Module:
        """A layer that holds `n` independently drawn replicas of this one.

        Args:
            n: number of replicas, at least 1.

        Returns:
            A module from [n, ..., *input_shape] to [n, ..., *output_shape].
        """
        return stack_layers([self.copy() for _ in range(check_replicas(n))])


class ParallelLayer(QuickModule):
    """Holds the parameters of `n` replicas of one layer; from [n, ...] to [n, ...]."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = check_replicas(n)

    def replica_tensors(self, i: int, layer: nn.Module) -> list[tuple[Tensor, Tensor]]:
        """Pairs each tensor of `layer` with the view of this one's that holds it for replica `i`.

        Args:
            i: number of the replica.
            layer: the ordinary layer that replica `i` corresponds to.

        Returns:
            (view into this layer, tensor of `layer`) pairs of equal shapes.
        """
        raise NotImplementedError

    def load_replica(self, i: int, layer: nn.Module) -> None:
        """Copies the parameters and buffers of `layer` into replica `i`."""
        with torch.no_grad():
            for mine, theirs in self.replica_tensors(i, layer):
                mine.copy_(theirs)

    def save_replica(self, i: int, layer: nn.Module) -> None:
        """Copies the parameters and buffers of replica `i` into `layer`."""
        with torch.no_grad():
            for mine, theirs in self.replica_tensors(i, layer):
                theirs.copy_(mine)


def check_replicas(n: int) -> int:
    """Returns `n`, or refuses it if it is not a positive whole number."""
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"the number of replicas must be a positive int, got {n!r}")
    return n


def check_sizes(owner: str, **sizes: int) -> None:
    """Refuses sizes of a layer that are not positive whole numbers, naming the first."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{owner}: {name} must be a positive int, got {size!r}")


ModuleT = TypeVar("ModuleT", bound=nn.Module)


def reinitialized_copy(module: ModuleT) -> ModuleT:
    """A deep copy of `module` with newly drawn parameters.

    Every submodule with parameters of its own needs `reset_parameters`, as torch's and Rein's layers have.
    """
    clone = copy.deepcopy(module)
    # Children first: a parent's reset may adjust what its children drew.
    for name, part in reversed(list(clone.named_modules())):
        reset = getattr(part, "reset_parameters", None)
        if reset is not None:
            reset()
        elif part._parameters:
            raise TypeError(
                f"cannot copy {type(module).__name__}: its part {name or 'itself'!r} "
                f"({type(part).__name__}) has parameters but no reset_parameters(); add that method"
            )
    return clone


def clone_shell(module: nn.Module) -> nn.Module:
    """A shallow copy of `module` whose children, parameters and buffers can be replaced freely."""
    shell = module.__new__(type(module))
    shell.__dict__.update(module.__dict__)
    for table in ("_modules", "_parameters", "_buffers"):
        shell.__dict__[table] = dict(module.__dict__[table])
    return shell


def stack_layers(layers: Sequence[nn.Module]) -> nn.Module:
    """One module that evaluates several of one kind, each on its slice of the first dimension.

    Modules given as the very same object (shared parameters) stay one.

    Args:
        layers: modules built alike, with different parameters.

    Returns:
        A module from [n, ..., *input_shape] to [n, ..., *output_shape].
    """
    first = layers[0]
    is_shared = len(layers) > 1 and all(layer is first for layer in layers)
    if is_shared or getattr(first, "is_singleton", False):
        return first
    if isinstance(first, Layer):
        parallel = first.new_parallel(len(layers))
        if parallel is not None:
            for i, layer in enumerate(layers):
                parallel.load_replica(i, layer)
            parallel.train(first.training)
            return parallel
    if any(t is not None for t in (*first._parameters.values(), *first._buffers.values())):
        raise NotStackableError(f"{type(first).__name__} has parameters but no parallel version")
    shell = clone_shell(first)
    for name, child in first._modules.items():
        if child is not None:
            shell._modules[name] = stack_layers([layer.get_submodule(name) for layer in layers])
    return shell


class NotStackableError(TypeError):
    """Raised for a module that has no parallel version built from parallel layers."""
