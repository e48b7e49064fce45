"""The one shape of network: ``output, state = network(input, state)``."""

from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from rein import nest
from rein.distributions.params import map_params
from rein.nest import Nest
from rein.networks import dry_run
from rein.networks.construction import ConstructorCall, RecordsConstructorCall, copy_modules_in
from rein.networks.input_check import InputCheck
from rein.networks.layers.layer import Layer, ParallelLayer
from rein.networks.state import reset_state, zero_state


class Network(nn.Module, metaclass=RecordsConstructorCall):
    """A module from (input, state) to (output, state), with specs for all of them.

    A subclass writes `forward(inputs, state)`. A network without state passes on the `()` it gets. One with
    state starts from scratch when it gets `()`: so `state_spec` and `output_spec` are found by one trial call
    and nobody has to write them down.

    `leading_dims_agnostic` says that `forward` works for any number of dimensions before those of
    `input_tensor_spec` (it counts dimensions from the end and uses Rein's layers): replicas and time steps then
    pass through it as further dimensions. It speaks only for the `forward` of the class that sets it.
    """

    leading_dims_agnostic: ClassVar[bool] = False

    _constructor_call: ConstructorCall

    def __init__(self, input_tensor_spec: Nest, state_spec: Nest | None = None, name: str = "Network") -> None:
        """Keeps the specs.

        Args:
            input_tensor_spec: nest of specs of the input, without batch dimension; None: inputs are not checked,
                and output and state have no specs.
            state_spec: nest of specs of the state; None: found by a trial call.
            name: used in messages and summaries.
        """
        super().__init__()
        self._input_tensor_spec = input_tensor_spec
        self._name = name
        self._check_input = None if input_tensor_spec is None else InputCheck(input_tensor_spec, name)
        self._given_state_spec = state_spec
        self._found_specs: tuple[Nest, Nest] | None = None
        self._found_agnostic: bool | None = None
        self._is_singleton = False

    def remember_construction(self, call: ConstructorCall) -> None:
        """Keeps the constructor call for `copy`; called once, after construction."""
        # Not through setattr: the arguments may hold modules, which must not become children.
        self.__dict__["_constructor_call"] = call

    def __call__(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        """Evaluates the network.

        Args:
            inputs: nest of [B, ...] tensors as `input_tensor_spec` says.
            state: nest of [B, ...] tensors as `state_spec` says; `()` starts from the initial state.

        Returns:
            The output, a nest of [B, ...] tensors or distributions, and the new state.
        """
        check = self._check_input
        if check is not None and not torch.compiler.is_compiling():
            check(inputs)
        if (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or _has_any_global_hook()  # type: ignore[no-untyped-call]
        ):
            result: tuple[Nest, Nest] = super().__call__(inputs, state)
            return result
        return self.forward(inputs, state)  # straight, see `QuickModule`

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        """Computes output and new state; see `__call__`."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(inputs, state)")

    @property
    def name(self) -> str:
        """The name given at construction."""
        return self._name

    @property
    def input_tensor_spec(self) -> Nest:
        """Nest of specs of the input, without batch dimension."""
        return self._input_tensor_spec

    @property
    def output_spec(self) -> Nest:
        """Nest of specs of the output; a distribution is described by its `DistributionSpec`."""
        return self._specs()[0]

    @property
    def state_spec(self) -> Nest:
        """Nest of specs of the state, `()` if there is none."""
        if self._given_state_spec is not None:
            return self._given_state_spec
        return self._specs()[1]

    @property
    def is_distribution_output(self) -> bool:
        """Whether the output is a distribution or holds one."""
        return dry_run.holds_distribution(self.output_spec)

    @property
    def is_rnn(self) -> bool:
        """Whether the network has a state."""
        return not nest.is_empty(self.state_spec)

    def _specs(self) -> tuple[Nest, Nest]:
        if self._found_specs is None:
            if self._input_tensor_spec is None:
                raise ValueError(
                    f"{self.name} was built without input_tensor_spec: use "
                    "network.copy(input_tensor_spec=...) before asking for its specs"
                )
            self._found_specs = dry_run.find_specs(self, self._input_tensor_spec, self._given_state_spec)
            self._is_agnostic()
            # Those of the parts are found now too: a trial call inside a compiled graph is impossible.
            for part in self.modules():
                if isinstance(part, Network) and part._input_tensor_spec is not None:
                    part._specs()
        return self._found_specs

    def get_initial_state(self, batch_size: int) -> Nest:
        """A state of zeros for `batch_size` sequences."""
        return zero_state(self.state_spec, batch_size, dry_run.device_of(self))

    def singleton(self, singleton: bool = True) -> Self:
        """Makes `copy` return this very object, so that all who copy it share its parameters.

        Args:
            singleton: False undoes it.
        """
        self._is_singleton = singleton
        return self

    @property
    def is_singleton(self) -> bool:
        """Whether `copy` returns this very object."""
        return self._is_singleton

    def copy(self, **overrides: Any) -> Self:
        """A network built by the same constructor call, with fresh parameters.

        Networks and layers among the arguments are copied too. A singleton returns itself.

        Args:
            **overrides: constructor arguments to replace.
        """
        if self._is_singleton:
            if overrides:
                raise ValueError(f"{self.name} is a singleton: it cannot be copied with {sorted(overrides)} changed")
            return self
        args, kwargs = self._constructor_call.with_overrides(type(self), overrides)
        clone = type(self)(*copy_modules_in(args), **copy_modules_in(kwargs))
        parameter = next(self.parameters(), None)
        return clone if parameter is None else clone.to(parameter.device)

    def make_parallel(self, n: int) -> "Network":
        """`n` independent replicas of this network, evaluated in one batched call.

        Args:
            n: number of replicas.

        Returns:
            A network with fresh parameters from [B, ...] (the same for all replicas) or [B, n, ...] inputs to
            [B, n, ...] outputs.
        """
        from rein.networks.parallel import make_parallel

        return make_parallel(self, n)

    def unroll(self, inputs: Nest, state: Nest = (), is_first: Tensor | None = None) -> tuple[Nest, Nest]:
        """Evaluates sequences, in as few calls as the network allows.

        The result equals that of calling the network step by step.

        Args:
            inputs: nest of [B, T, ...].
            state: before the first step, nest of [B, ...]; `()` is the initial state.
            is_first: [B, T] bool, True where the state is reset before the step; None: nowhere.

        Returns:
            The outputs, [B, T, ...], and the state after the last step.
        """
        if not self.is_rnn:
            return self._unroll_stateless(inputs), state
        return self._unroll_steps(inputs, state, is_first)

    def _is_agnostic(self) -> bool:
        if self._found_agnostic is None:
            self._found_agnostic = find_obstacle(self) is None
        return self._found_agnostic

    def _unroll_stateless(self, inputs: Nest) -> Nest:
        if self._is_agnostic():
            return self(inputs)[0]
        sizes: list[torch.Size] = []

        def merge(x: Tensor, spec: Any) -> Tensor:
            sizes.append(x.shape[: x.ndim - spec.ndim])
            return x.reshape(-1, *spec.shape)

        output, _ = self(nest.map_structure(merge, inputs, self._input_tensor_spec))
        return map_params(lambda y: y.reshape(*sizes[0], *y.shape[1:]), output)

    def _unroll_steps(self, inputs: Nest, state: Nest, is_first: Tensor | None) -> tuple[Nest, Nest]:
        specs = self._input_tensor_spec
        lead = next(
            x.shape[: x.ndim - spec.ndim] for x, spec in zip(nest.flatten(inputs), nest.flatten(specs), strict=True)
        )
        outputs = []
        for t in range(lead[-1]):
            if is_first is not None and not nest.is_empty(state):
                state = reset_state(state, is_first.select(-1, t))
            output, state = self(
                nest.map_structure(lambda x, s, t=t: x.select(x.ndim - s.ndim - 1, t), inputs, specs),
                state,
            )
            outputs.append(output)
        time_dim = len(lead) - 1
        return dry_run.combine_tensors(lambda *ys: torch.stack(ys, time_dim), *outputs), state


_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)
_ELEMENTWISE = (
    nn.ReLU,
    nn.Tanh,
    nn.Sigmoid,
    nn.ELU,
    nn.SELU,
    nn.GELU,
    nn.SiLU,
    nn.LeakyReLU,
    nn.Identity,
)


def find_obstacle(module: nn.Module) -> nn.Module | None:
    """The first part of `module` that does not say that it works with further leading dimensions."""
    for part in module.modules():
        if isinstance(part, Layer):
            agnostic = part.is_leading_dims_agnostic
        elif isinstance(part, Network):
            agnostic = _vouches_for_forward(type(part))
        else:
            agnostic = isinstance(part, (ParallelLayer, *_CONTAINERS, *_ELEMENTWISE))
        if not agnostic:
            return part
    return None


def _vouches_for_forward(cls: type[Network]) -> bool:
    """Whether `leading_dims_agnostic` was set by the class that defines `forward`, or below it."""
    for base in cls.__mro__:
        if "leading_dims_agnostic" in vars(base):
            return bool(vars(base)["leading_dims_agnostic"])
        if "forward" in vars(base):
            return False
    return False
