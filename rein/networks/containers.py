"""Networks made of networks, layers and functions.

An element is a `Network`, a module or a function; or a pair ``(inputs, element)``, where `inputs` is a nest of
names that says what the element is given: ``"input"`` is the input of the container, ``"a"`` the result of the
element called `a`, ``"a.b"`` the field `b` of it.
"""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from rein import nest
from rein.config import configurable
from rein.nest import Nest
from rein.networks.item_paths import get_item, item_paths, pack_items
from rein.networks.layers.fc import FC
from rein.networks.layers.shaping import Lambda
from rein.networks.network import Network
from rein.specs import TensorSpec

Element = Network | nn.Module | Callable[[Nest], Nest]


def _as_module(element: Any) -> nn.Module:
    if isinstance(element, nn.Module):
        return element
    if callable(element):
        return Lambda(element)
    raise TypeError(f"an element must be a network, a module or a function, or (inputs, element), got {element!r}")


def _spec_of(input_tensor_spec: Nest | None, element: Any, owner: str) -> Nest:
    """The spec given, or else that of the first element."""
    if input_tensor_spec is not None:
        return input_tensor_spec
    if isinstance(element, Network):
        return element.input_tensor_spec
    if isinstance(element, FC):
        return TensorSpec((element.input_size,))
    raise ValueError(f"{owner}: give input_tensor_spec, as the first element ({type(element).__name__}) has none")


def _call(module: nn.Module, inputs: Nest, state: Nest) -> tuple[Nest, Nest]:
    if isinstance(module, Network):
        return module(inputs, state)
    return module(inputs), ()


def _unroll(module: nn.Module, inputs: Nest, state: Nest, is_first: Tensor | None) -> tuple[Nest, Nest]:
    if isinstance(module, Network):
        return module.unroll(inputs, state, is_first)
    return module(inputs), ()


class _Container(Network):
    """Runs its elements on one step, or, where all elements allow it, on whole sequences."""

    leading_dims_agnostic = True

    def _run(
        self, inputs: Nest, state: Nest, call: Callable[[nn.Module, Nest, Nest], tuple[Nest, Nest]]
    ) -> tuple[Nest, Nest]:
        raise NotImplementedError

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        """One step; see `Network`."""
        return self._run(inputs, state, _call)

    def unroll(self, inputs: Nest, state: Nest = (), is_first: Tensor | None = None) -> tuple[Nest, Nest]:
        """Whole sequences, element by element; see `Network.unroll`."""
        if not self._is_agnostic():
            return super().unroll(inputs, state, is_first)
        return self._run(inputs, state, lambda m, x, s: _unroll(m, x, s, is_first))


@configurable
class Sequential(_Container):
    """Elements one after another; each gets the result of the one before, or what it asks for by name."""

    def __init__(
        self,
        *modules: Any,
        output: Nest = "",
        input_tensor_spec: Nest | None = None,
        name: str = "Sequential",
        **named_modules: Any,
    ) -> None:
        """Keeps the elements: first those without, then those with a name.

        Args:
            *modules: elements without a name.
            output: nest of names of the results to return; "" is the result of the last element.
            input_tensor_spec: nest of specs of the input; None: that of the first element.
            name: of this network.
            **named_modules: elements whose results the later ones can ask for.
        """
        elements = [(f"_{i}", element) for i, element in enumerate(modules)]
        elements += list(named_modules.items())
        if not elements:
            raise ValueError(f"{name}: give at least one element")
        for key in named_modules:
            if key in ("input", "state"):
                raise ValueError(f"{name}: no element may be called {key!r}")
        first = elements[0][1]
        super().__init__(
            _spec_of(input_tensor_spec, first[1] if isinstance(first, tuple) else first, name),
            name=name,
        )
        self._names = [key for key, _ in elements]
        self._asked: list[Nest] = []
        self.elements = nn.ModuleList()
        known = {"input"}
        for key, element in elements:
            asked: Nest = None
            if isinstance(element, tuple):
                asked, element = element
                self._check_names(asked, known, f"element {key!r}")
            self._asked.append(asked)
            self.elements.append(_as_module(element))
            known.add(key)
        self._output = output
        if output != "":
            self._check_names(output, known, "the output")

    def _check_names(self, asked: Nest, known: set[str], who: str) -> None:
        for field in nest.flatten(asked):
            if not isinstance(field, str) or (field and field.split(".")[0] not in known):
                raise ValueError(f"{self.name}: {who} asks for {field!r}, but there is only {sorted(known)}")

    def _run(
        self, inputs: Nest, state: Nest, call: Callable[[nn.Module, Nest, Nest], tuple[Nest, Nest]]
    ) -> tuple[Nest, Nest]:
        results: dict[str, Nest] = {"input": inputs}
        states: list[Nest] = []
        x = inputs
        for i, (key, asked, module) in enumerate(zip(self._names, self._asked, self.elements, strict=True)):
            if asked is not None:
                x = _fetch(results, asked)
            x, new_state = call(module, x, state[i] if state else ())
            results[key] = x
            states.append(new_state)
        output = x if self._output == "" else _fetch(results, self._output)
        return output, _pack_states(states)


def _fetch(results: dict[str, Nest], asked: Nest) -> Nest:
    if isinstance(asked, str):
        name, _, rest = asked.partition(".")
        return nest.get_field(results[name], rest)
    return nest.map_structure(lambda field: _fetch(results, field), asked)


def _pack_states(states: list[Nest]) -> Nest:
    """The states of all elements, `()` if none has one."""
    return () if all(nest.is_empty(state) for state in states) else tuple(states)


@configurable
class Parallel(_Container):
    """A nest of elements, each applied to its part of the input."""

    def __init__(self, modules: Nest, input_tensor_spec: Nest | None = None, name: str = "Parallel") -> None:
        """Keeps the elements.

        Args:
            modules: nest of elements with the structure of the input, or of an upper part of it.
            input_tensor_spec: nest of specs of the input; None: those of the elements, all networks.
            name: of this network.
        """
        if input_tensor_spec is None:
            input_tensor_spec = nest.map_structure(lambda m: _spec_of(None, m, name), modules)
        super().__init__(input_tensor_spec, name=name)
        self._structure = nest.map_structure(lambda _: 0, modules)
        nest.flatten_up_to(self._structure, input_tensor_spec)
        self._paths = item_paths(self._structure)
        self.elements = nn.ModuleList(_as_module(m) for m in nest.flatten(modules))

    def _run(
        self, inputs: Nest, state: Nest, call: Callable[[nn.Module, Nest, Nest], tuple[Nest, Nest]]
    ) -> tuple[Nest, Nest]:
        results, states = [], []
        for i, (module, path) in enumerate(zip(self.elements, self._paths, strict=True)):
            result, new_state = call(module, get_item(inputs, path), state[i] if state else ())
            results.append(result)
            states.append(new_state)
        return pack_items(self._structure, results), _pack_states(states)


@configurable
class Branch(_Container):
    """Elements that all get the same input."""

    def __init__(
        self,
        *modules: Any,
        input_tensor_spec: Nest | None = None,
        name: str = "Branch",
        **named_modules: Any,
    ) -> None:
        """Keeps the elements.

        Args:
            *modules: elements; the output is the tuple of their results.
            input_tensor_spec: nest of specs of the input; None: that of the first element.
            name: of this network.
            **named_modules: elements; the output is the dict of their results. Excludes `modules`.
        """
        if bool(modules) == bool(named_modules):
            raise ValueError(f"{name}: give elements either all with or all without names")
        elements = list(modules or named_modules.values())
        super().__init__(_spec_of(input_tensor_spec, elements[0], name), name=name)
        self._keys = list(named_modules)
        self.elements = nn.ModuleList(_as_module(element) for element in elements)

    def _run(
        self, inputs: Nest, state: Nest, call: Callable[[nn.Module, Nest, Nest], tuple[Nest, Nest]]
    ) -> tuple[Nest, Nest]:
        results, states = [], []
        for i, module in enumerate(self.elements):
            result, new_state = call(module, inputs, state[i] if state else ())
            results.append(result)
            states.append(new_state)
        output: Nest = tuple(results)
        if self._keys:
            output = dict(zip(self._keys, results, strict=True))
        return output, _pack_states(states)


@configurable
class Echo(Network):
    """Gives a network part of its own output as part of its next input.

    The block takes ``{"input": ..., "echo": ...}`` and returns ``{"output": ..., "echo": ...}``; what it returns
    as "echo" is given back to it at the next step, zeros at first.
    """

    leading_dims_agnostic = True

    def __init__(self, block: Network, input_tensor_spec: Nest | None = None, name: str = "Echo") -> None:
        """Keeps the block.

        Args:
            block: the network.
            input_tensor_spec: nest of specs of "input"; None: from the spec of the block.
            name: of this network.
        """
        block_spec = block.input_tensor_spec
        if not isinstance(block_spec, dict) or set(block_spec) != {"input", "echo"}:
            raise ValueError(f"{name}: the block must take a dict with 'input' and 'echo', it takes {block_spec!r}")
        output_spec = block.output_spec
        if not isinstance(output_spec, dict) or set(output_spec) != {"output", "echo"}:
            raise ValueError(
                f"{name}: the block must return a dict with 'output' and 'echo', it returns {output_spec!r}"
            )
        given = nest.map_structure(lambda spec: (tuple(spec.shape), spec.dtype), output_spec["echo"])
        taken = nest.map_structure(lambda spec: (tuple(spec.shape), spec.dtype), block_spec["echo"])
        if given != taken:
            raise ValueError(
                f"{name}: the block returns an echo of {output_spec['echo']} but takes {block_spec['echo']}"
            )
        super().__init__(block_spec["input"] if input_tensor_spec is None else input_tensor_spec, name=name)
        self.block = block
        self._echo_spec = block_spec["echo"]

    def _first_echo(self, inputs: Nest) -> Nest:
        example, spec = next(self._examples(inputs))
        lead = example.shape[: example.ndim - spec.ndim]
        return nest.map_structure(lambda echo: example.new_zeros(*lead, *echo.shape, dtype=echo.dtype), self._echo_spec)

    def _examples(self, inputs: Nest) -> Iterator[tuple[Tensor, Any]]:
        return zip(nest.flatten(inputs), nest.flatten(self._input_tensor_spec), strict=True)

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        """One step; the state holds that of the block and the echo."""
        block_state, echo = state if state else ((), self._first_echo(inputs))
        result, block_state = self.block({"input": inputs, "echo": echo}, block_state)
        return result["output"], (block_state, result["echo"])
