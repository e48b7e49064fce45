"""What an agent is made of, as a tree of plain values: components, what goes in and out, parameters, optimizers.

`agent_text` and `agent_svg` draw it; run directories keep it as `agent.json`.
"""

from collections.abc import Iterator
from typing import Any, TypedDict

from torch import nn

from rein import nest
from rein.agents import Agent
from rein.distributions import DistributionSpec
from rein.framework import Algorithm, RLAlgorithm
from rein.nest import Nest
from rein.networks import Network, encoding_choices
from rein.specs import BoundedTensorSpec, TensorSpec

Ports = dict[str, str]
_SCALAR = TensorSpec(())


class Node(TypedDict):
    """A component and those below it."""

    name: str
    """What it is to the one above it."""
    type: str
    kind: str
    """algorithm, network, module or parameter."""
    inputs: Ports
    """What goes in: shapes, types and limits by path; then, in brackets, what a network makes of it by default."""
    outputs: Ports
    state: Ports
    """What it remembers from step to step."""
    parameters: int
    """Numbers in it and below it."""
    trained: int
    """Those of them that an optimizer changes."""
    optimizers: list[int]
    """Numbers of the optimizers of what is trained in it and below it."""
    children: list["Node"]


class OptimizerEntry(TypedDict):
    """An optimizer and what it handles."""

    number: int
    name: str
    learning_rate: str
    settings: dict[str, Any]
    components: list[str]
    """Dotted paths of the nodes whose parameters it handles."""
    parameters: int


class AgentTree(TypedDict):
    """An agent as plain values."""

    root: Node
    optimizers: list[OptimizerEntry]


def describe_agent(algorithm: Algorithm) -> AgentTree:
    """The tree of an algorithm, ready for JSON."""
    optimizers = algorithm.optimizers(include_ignored_attributes=True)
    owner = {id(p): number for number, one in enumerate(optimizers, 1) for g in one.param_groups for p in g["params"]}
    root = _Walk(owner).algorithm(algorithm, "agent", _ports_of(algorithm))
    entries = [_optimizer(one, number, root) for number, one in enumerate(optimizers, 1)]
    return AgentTree(root=root, optimizers=entries)


def _optimizer(optimizer: Any, number: int, root: Node) -> OptimizerEntry:
    info = optimizer.get_optimizer_info()
    settings = {key: value for key, value in info["hypers"].items() if value is not None}
    return OptimizerEntry(
        number=number,
        name=info["optimizer"],
        learning_rate=str(settings.pop("lr", "")),
        settings=settings,
        components=list(_handled(root, number, "")),
        parameters=info["num_elements"],
    )


def _handled(node: Node, number: int, path: str) -> Iterator[str]:
    """Paths of the lowest components that an optimizer handles, a component instead of all that is in it."""
    if number not in node["optimizers"]:
        return
    inside = [child for child in node["children"] if child["parameters"]]
    if not inside or node["kind"] == "network":
        yield path or node["name"]
        return
    for child in inside:
        yield from _handled(child, number, f"{path}.{child['name']}".lstrip("."))


class _Walk:
    """One walk over modules; each is met once."""

    def __init__(self, owner: dict[int, int]) -> None:
        self._owner = owner
        self._met: set[int] = set()

    def algorithm(self, algorithm: Algorithm, name: str, ports: tuple[Nest, Nest]) -> Node:
        """The node of an algorithm, given specs of what goes in and out."""
        self._met.add(id(algorithm))
        flows = _agent_flows(algorithm) if isinstance(algorithm, Agent) else {}
        children = list(self._children(algorithm, flows))
        return self._node(algorithm, name, "algorithm", ports, algorithm.train_state_spec, children)

    def _children(self, module: nn.Module, flows: dict[str, tuple[Nest, Nest]], prefix: str = "") -> Iterator[Node]:
        for key, parameter in module._parameters.items():
            if parameter is not None and id(parameter) not in self._met:
                self._met.add(id(parameter))
                yield self._leaf(prefix + _role(key), parameter)
        for key, child in module._modules.items():
            if child is None or id(child) in self._met:
                continue
            name = prefix + _role(key)
            if isinstance(child, Algorithm):
                yield self.algorithm(child, name, flows.get(key) or _ports_of(child))
            elif isinstance(child, Network):
                yield self._network(child, name)
            elif any(isinstance(one, Algorithm | Network) for one in child.modules()):
                self._met.add(id(child))
                yield from self._children(child, {}, f"{name}.")
            elif any(True for _ in child.parameters()):
                self._met.add(id(child))
                yield self._node(child, name, "module", ((), ()), (), [])

    def _network(self, network: Network, name: str) -> Node:
        self._met.update(id(one) for one in network.modules())
        if network.input_tensor_spec is None:
            return self._node(network, name, "network", ((), ()), (), [])
        try:
            output, state = network.output_spec, network.state_spec
        except (RuntimeError, ValueError, TypeError, NotImplementedError, IndexError):
            # Found by a trial call on zeros, which a network need not support; that is no reason not to train it.
            output, state = (), ()
        return self._node(network, name, "network", (network.input_tensor_spec, output), state, [])

    def _leaf(self, name: str, parameter: nn.Parameter) -> Node:
        number = self._owner.get(id(parameter))
        return Node(
            name=name,
            type=spec_text(TensorSpec.from_tensor(parameter.detach())),
            kind="parameter",
            inputs={},
            outputs={},
            state={},
            parameters=parameter.numel(),
            trained=0 if number is None else parameter.numel(),
            optimizers=[] if number is None else [number],
            children=[],
        )

    def _node(
        self, module: nn.Module, name: str, kind: str, ports: tuple[Nest, Nest], state: Nest, children: list[Node]
    ) -> Node:
        parameters = list(module.parameters())
        inputs = _texts(ports[0])
        if isinstance(module, Network):
            for path, choice in encoding_choices(module).items():
                if path in inputs:
                    inputs[path] += f" ({choice})"
        return Node(
            name=name,
            type=type(module).__name__,
            kind=kind,
            inputs=inputs,
            outputs=_texts(ports[1]),
            state=_texts(state),
            parameters=sum(p.numel() for p in parameters),
            trained=sum(p.numel() for p in parameters if id(p) in self._owner),
            optimizers=sorted({self._owner[id(p)] for p in parameters if id(p) in self._owner}),
            children=children,
        )


def _ports_of(algorithm: Algorithm) -> tuple[Nest, Nest]:
    """What an algorithm says of itself about what goes in and out; nothing where it does not."""
    if isinstance(algorithm, RLAlgorithm):
        return {"observation": algorithm.observation_spec}, {"action": algorithm.action_spec}
    output = getattr(algorithm, "output_spec", ())
    return (), {} if nest.is_empty(output) else {"output": output}


def _agent_flows(agent: Agent) -> dict[str, tuple[Nest, Nest]]:
    """Specs of what goes into and out of each part of an agent, by its attribute; as in docs/composition.md."""
    rl, learner, goals = agent._rl_algorithm, agent._representation_learner, agent._goal_generator
    seen = {"observation": rl.observation_spec}
    flows: dict[str, tuple[Nest, Nest]] = {
        "_irm": (seen, {"reward": _SCALAR}),
        "_rl_algorithm": ({**seen, "reward": rl._reward_spec}, {"action": rl.action_spec}),
        "_entropy_target_algorithm": ({"action distribution": rl.action_spec}, {"loss": _SCALAR}),
        "_reward_weight_algorithm": (
            {"reward": rl._reward_spec},
            {"reward weights": TensorSpec(rl._reward_spec.shape)},
        ),
    }
    given: Nest = agent.observation_spec
    if learner is not None:
        representation = learner.output_spec
        flows["_representation_learner"] = ({"observation": given}, {"representation": representation})
        given = representation
    if goals is not None:
        flows["_goal_generator"] = ({"observation": given}, {"goal": goals.action_spec})  # type: ignore[attr-defined]
    return flows


def _texts(specs: Nest) -> Ports:
    """Specs as text, by path; empty for none."""
    return {path: spec_text(spec) for path, spec in nest.flatten_with_paths(specs) if not nest.is_empty(spec)}


def spec_text(spec: Any) -> str:
    """A spec in a few characters: `[4]`, `[3, 84, 84] uint8`, `0..5`, `[2] in -1..1`, `Categorical [6]`."""
    if isinstance(spec, DistributionSpec):
        sizes = ", ".join(spec_text(one) for one in nest.flatten(spec.input_params_spec))
        return f"{spec.recipe.distribution_type.__name__} {sizes}"
    if not isinstance(spec, TensorSpec):
        return str(spec)
    if isinstance(spec, BoundedTensorSpec) and spec.ndim == 0 and spec.is_discrete:
        return f"{int(spec.minimum)}..{int(spec.maximum)}"
    dtype = str(spec.dtype).removeprefix("torch.")
    text = str(list(spec.shape)) + ("" if dtype == "float32" else f" {dtype}")
    if isinstance(spec, BoundedTensorSpec):
        low, high = float(spec.minimum.min()), float(spec.maximum.max())
        if abs(low) < 1e6 and abs(high) < 1e6:
            text += f" in {low:g}..{high:g}"
    return text


def _role(attribute: str) -> str:
    return attribute.lstrip("_")
