"""Many replicas of a network in one batched call.

Three ways, tried in this order by `Network.make_parallel`:

- `ParallelNetwork`: the same network with its layers replaced by their parallel versions (batched products,
  grouped convolutions). Inside, the replicas are the first dimension; outside, the second.
- `VmapParallelNetwork`: `torch.vmap` over stacked parameters, for networks with modules of their own.
- `NaiveParallelNetwork`: one call per replica, for what `torch.vmap` cannot do.
"""

import copy
import warnings
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from rein import nest
from rein.distributions.params import map_params
from rein.nest import Nest
from rein.networks.construction import ConstructorCall, copy_modules_in
from rein.networks.dry_run import combine_tensors
from rein.networks.layers.layer import (
    NotStackableError,
    ParallelLayer,
    check_replicas,
    stack_layers,
)
from rein.networks.network import Network, find_obstacle
from rein.specs import TensorSpec


def make_parallel(network: Network, n: int) -> Network:
    """`n` fresh replicas of `network` in one; see `Network.make_parallel`."""
    check_replicas(n)
    replicas = [network.copy() for _ in range(n)]
    try:
        return ParallelNetwork(replicas)
    except NotStackableError as error:
        reason = error
    try:
        parallel = VmapParallelNetwork(replicas)
        _ = parallel.output_spec
    except (RuntimeError, NotImplementedError) as error:
        warnings.warn(
            f"{network.name} is replicated by {n} separate calls: {reason}; torch.vmap: {error}",
            stacklevel=3,
        )
        return NaiveParallelNetwork(replicas)
    return parallel


class _Replicas(Network):
    """Shared by the three ways: the number of replicas, and how to build them anew."""

    def __init__(self, networks: Sequence[Network], name: str | None) -> None:
        if not networks:
            raise ValueError("give at least one network to run in parallel")
        first = networks[0]
        kinds = {type(network) for network in networks}
        if len(kinds) > 1:
            raise TypeError(f"only networks of one class run in parallel, got {kinds}")
        super().__init__(first.input_tensor_spec, name=name or f"parallel_{first.name}")
        self.n = len(networks)
        self._replica_type = type(first)
        self.__dict__["_replica_call"] = first._constructor_call

    def remember_construction(self, call: ConstructorCall) -> None:
        """Nothing is kept: the replicas given are not needed once their parameters are stacked."""

    def _new_replica(self) -> Network:
        args, kwargs = self.__dict__["_replica_call"]
        return self._replica_type(*copy_modules_in(args), **copy_modules_in(kwargs))

    def copy(self, **overrides: Any) -> Self:
        """As many replicas with fresh parameters; see `Network.copy`.

        Args:
            **overrides: constructor arguments of the replicas to replace.
        """
        if self.is_singleton and not overrides:
            return self
        call: ConstructorCall = self.__dict__["_replica_call"]
        args, kwargs = call.with_overrides(self._replica_type, overrides)
        return type(self)(
            [self._replica_type(*copy_modules_in(args), **copy_modules_in(kwargs)) for _ in range(self.n)],
            name=self.name,
        )

    def _replica_first(self, inputs: Nest, time: int = 0) -> Nest:
        """From [B, ...] or [B, n, ...] to [n, B, ...]; with `time` 1, from [B, T(, n), ...] to [n, B, T, ...]."""
        spec, n = self._input_tensor_spec, self.n

        def convert(x: Tensor, one: TensorSpec) -> Tensor:
            extra = x.ndim - one.ndim - 1 - time
            if extra == 0:
                return x.expand(n, *x.shape)
            if extra == 1 and x.shape[1 + time] == n:
                return x.movedim(1 + time, 0)
            raise ValueError(
                f"{self.name}: an input of shape {tuple(x.shape)} is neither (B,) + {tuple(one.shape)} nor "
                f"(B, {n}) + {tuple(one.shape)}"
            )

        if isinstance(inputs, Tensor):
            return convert(inputs, spec)
        if type(inputs) is tuple and all(isinstance(x, Tensor) for x in inputs):
            return tuple(convert(x, one) for x, one in zip(inputs, spec, strict=True))
        return nest.map_structure(convert, inputs, spec)


def _swap(values: Nest) -> Nest:
    """Exchanges the first two dimensions of every tensor, as views."""
    if isinstance(values, Tensor):
        return values.transpose(0, 1)
    if values == ():
        return values
    return map_params(lambda x: x.transpose(0, 1), values)


class ParallelNetwork(_Replicas):
    """Replicas whose layers are evaluated together, [B, ...] or [B, n, ...] to [B, n, ...]."""

    def __init__(self, networks: Sequence[Network], name: str | None = None) -> None:
        """Stacks the parameters of `networks`, which are not needed afterwards.

        Args:
            networks: built alike; modules that are one object in all of them (singletons) stay shared.
            name: by default "parallel_" and the name of the networks.
        """
        super().__init__(networks, name)
        self.stacked = stack_networks(networks)

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        """All replicas on one batch; see `Network`."""
        output, state = self.stacked(self._replica_first(inputs), _swap(state))
        return _swap(output), _swap(state)

    def unroll(self, inputs: Nest, state: Nest = (), is_first: Tensor | None = None) -> tuple[Nest, Nest]:
        """All replicas on sequences, [B, T, ...] or [B, T, n, ...] to [B, T, n, ...]; see `Network`."""
        first = None if is_first is None else is_first.expand(self.n, *is_first.shape)
        output, state = self.stacked.unroll(self._replica_first(inputs, time=1), _swap(state), first)
        return map_params(lambda y: y.movedim(0, 2), output), _swap(state)

    def replica(self, i: int) -> Network:
        """An ordinary network with a copy of the parameters of replica `i`."""
        network = self._new_replica()
        for mine, theirs in _layer_pairs(self.stacked, network):
            mine.save_replica(i, theirs)
        return network

    def load_replica(self, i: int, network: Network) -> None:
        """Copies the parameters of an ordinary network into replica `i`."""
        for mine, theirs in _layer_pairs(self.stacked, network):
            mine.load_replica(i, theirs)


def _layer_pairs(stacked: nn.Module, plain: nn.Module) -> list[tuple[ParallelLayer, nn.Module]]:
    if isinstance(stacked, ParallelLayer):
        return [(stacked, plain)]
    pairs = []
    for name, child in stacked._modules.items():
        other = plain._modules[name]
        if child is not None and other is not None and child is not other:
            pairs += _layer_pairs(child, other)
    return pairs


def stack_networks(networks: Sequence[Network]) -> Network:
    """A network of parallel layers, [n, B, ...] to [n, B, ...].

    Raises:
        NotStackableError: if a part is not known to work with another leading dimension.
    """
    obstacle = find_obstacle(networks[0])
    if obstacle is not None:
        raise NotStackableError(f"{type(obstacle).__name__} does not say that it works with another leading dimension")
    for part in networks[0].modules():
        if isinstance(part, Network):
            _ = part.state_spec, part.output_spec  # found now: the stacked one has other dimensions
    stacked = stack_layers(networks)
    assert isinstance(stacked, Network)
    return stacked


class VmapParallelNetwork(_Replicas):
    """Replicas of any network by `torch.vmap` over stacked parameters."""

    def __init__(self, networks: Sequence[Network], name: str | None = None) -> None:
        """Stacks the parameters of `networks`.

        Args:
            networks: built alike; parameters that are one object in all of them stay shared.
            name: by default "parallel_" and the name of the networks.
        """
        super().__init__(networks, name)
        first = networks[0]
        self._stacked_names: list[str] = []
        self._shared_names: list[str] = []
        self.tensors = nn.Module()
        skeleton = copy.deepcopy(first).to("meta")
        self.__dict__["_skeleton"] = skeleton
        for key, tensor in (*first.named_parameters(), *first.named_buffers()):
            replicas = [_get_tensor(network, key) for network in networks]
            shared = len(networks) > 1 and all(replica is tensor for replica in replicas)
            (self._shared_names if shared else self._stacked_names).append(key)
            value = tensor if shared else torch.stack([replica.detach() for replica in replicas])
            if isinstance(tensor, nn.Parameter):
                parameter = value if shared else nn.Parameter(value, tensor.requires_grad)
                self.tensors.register_parameter(_mangled(key), parameter)  # type: ignore[arg-type]
            else:
                self.tensors.register_buffer(_mangled(key), value)

    def train(self, mode: bool = True) -> Self:
        """Sets training or evaluation mode."""
        self.__dict__["_skeleton"].train(mode)
        return super().train(mode)

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        """All replicas on one batch; see `Network`."""
        stacked = {key: getattr(self.tensors, _mangled(key)) for key in self._stacked_names}
        shared = {key: getattr(self.tensors, _mangled(key)) for key in self._shared_names}
        skeleton = self.__dict__["_skeleton"]
        leaves = nest.flatten(self._replica_first(inputs))
        result: list[Nest] = []

        def call(own: dict[str, Tensor], flat: list[Tensor], flat_state: list[Tensor]) -> list[Tensor]:
            arguments = (
                nest.pack_sequence_as(inputs, flat),
                nest.pack_sequence_as(state, flat_state),
            )
            returned = torch.func.functional_call(skeleton, {**own, **shared}, arguments)
            tensors: list[Tensor] = []
            result[:] = [returned]
            map_params(lambda x: tensors.append(x) or x, returned)  # type: ignore[func-returns-value]
            return tensors

        flat_state = [x.transpose(0, 1) for x in nest.flatten(state)]
        outputs = iter(torch.vmap(call, randomness="different")(stacked, leaves, flat_state))
        output, new_state = map_params(lambda _: next(outputs).transpose(0, 1), result[0])
        return output, new_state


def _mangled(key: str) -> str:
    return key.replace(".", "/")


def _get_tensor(module: nn.Module, key: str) -> Tensor:
    path, _, name = key.rpartition(".")
    tensor = getattr(module.get_submodule(path), name)
    assert isinstance(tensor, Tensor)
    return tensor


class NaiveParallelNetwork(_Replicas):
    """Replicas evaluated one after another; works for every network."""

    def __init__(self, networks: Sequence[Network], name: str | None = None) -> None:
        """Keeps the networks.

        Args:
            networks: built alike.
            name: by default "parallel_" and the name of the networks.
        """
        super().__init__(networks, name)
        self.networks = nn.ModuleList(networks)

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        """All replicas on one batch; see `Network`."""
        replica_first = self._replica_first(inputs)
        results = [
            network(
                nest.index_nest(replica_first, i),
                nest.map_structure(lambda x, i=i: x[:, i], state),
            )
            for i, network in enumerate(self.networks)
        ]
        output, new_state = combine_tensors(lambda *xs: torch.stack(xs, 1), *results)
        return output, new_state
