"""From a policy to a graph of tensor operations, with only the inputs that its actions depend on."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram
from torch.fx import GraphModule, Node

from rein.config import use_configs
from rein.envs.action_forms import action_form
from rein.export.noise import NoiseFrom
from rein.export.policy_module import PolicyModule
from rein.export.signature import Port, Signature
from rein.framework import RLAlgorithm
from rein.framework.acting.actor import Purpose, without_learning
from rein.runtime.run import Run
from rein.specs import TensorSpec
from rein.training.policy import Policy

_OF_SHAPE_ONLY = {
    torch.ops.aten.sym_size.int,
    torch.ops.aten.zeros_like.default,
    torch.ops.aten.ones_like.default,
    torch.ops.aten.full_like.default,
    torch.ops.aten.empty_like.default,
    torch.ops.aten.new_zeros.default,
}
"""Operations whose result does not depend on the values of what goes in."""


class ExportError(ValueError):
    """A policy cannot be exported; the message says why."""


class Traced(NamedTuple):
    """A policy as a graph."""

    program: ExportedProgram
    signature: Signature


def trace_policy(policy: Policy, facts: dict[str, object], purpose: Purpose = "predict") -> Traced:
    """The graph of one step of a policy, for any batch size.

    Args:
        policy: to trace; it is not changed.
        facts: for the signature.
        purpose: "predict" for the best action, "rollout" for one that is drawn as in training.

    Raises:
        ExportError: its steps are no fixed graph.
    """
    algorithm = policy.algorithm
    form = None if policy.fitted_from is None else action_form(*policy.fitted_from)
    make = partial(PolicyModule, algorithm, policy.observation_spec, None if form is None else form.decode, purpose)
    with use_configs(policy.configs), Run(seed=policy.seed), without_learning(algorithm), quietly():
        draws = _find_draws(make())
        everything = make(draws)
        kept = _needed_inputs(_trace(everything), everything)
        module = make(draws, kept)
        program = _slim(_trace(module), module)
    _refuse_hidden_randomness(program, algorithm)
    return Traced(program, module.signature(facts))


def _trace(module: PolicyModule) -> ExportedProgram:
    example = module.example()
    try:
        return torch.export.export(module, example, dynamic_shapes=(_batched(example),), strict=False)
    except Exception as error:
        raise ExportError(
            f"{type(module.algorithm).__name__} cannot be exported: {_obstacle(module, error)}"
        ) from error


def _obstacle(module: PolicyModule, error: Exception) -> str:
    """Why a step could not be traced: what a part of the algorithm says about itself, or else what torch says."""
    for part in module.modules():
        if isinstance(part, RLAlgorithm) and part.export_obstacle:
            return part.export_obstacle
    reason = " ".join(str(error).split())[:300]
    return f"its step is no fixed graph of tensor operations ({type(error).__name__}: {reason})"


def _batched(example: tuple[Tensor, ...]) -> tuple[dict[int, Dim], ...]:
    """That the first dimension of every input may have any size, the same for all."""
    batch = Dim("batch", min=1)
    return tuple({0: batch} for _ in example)


def _slim(program: ExportedProgram, module: PolicyModule) -> ExportedProgram:
    """The program without the parameters that acting does not use, such as those of critics."""
    graph = program.module(check_guards=False)
    assert isinstance(graph, GraphModule)
    graph.graph.eliminate_dead_code()
    used = {str(node.target) for node in graph.graph.nodes if node.op == "get_attr"}
    for name, _ in [*graph.named_parameters(), *graph.named_buffers()]:
        if name not in used:
            owner, _, leaf = name.rpartition(".")
            delattr(graph.get_submodule(owner), leaf)
    example = module.example()
    return torch.export.export(graph, example, dynamic_shapes=_batched(example), strict=False)


def _needed_inputs(program: ExportedProgram, module: PolicyModule) -> list[str]:
    """Names of the inputs that actions depend on, now or through a state that they depend on."""
    ports = module.inputs
    nodes = {node.name: node for node in program.graph.nodes}
    port_of = {nodes[name]: port.name for name, port in zip(program.graph_signature.user_inputs, ports, strict=True)}
    outputs = [nodes[str(name)] for name in program.graph_signature.user_outputs]
    states = [port.name for port in ports if port.kind == "state"]
    num_actions = len(outputs) - len(states)
    follows = dict(zip(states, outputs[num_actions:], strict=True))
    needed: set[str] = set()
    waiting = list(outputs[:num_actions])
    while waiting:
        found = {port_of[node] for node in _ancestors(waiting.pop()) if node in port_of} - needed
        needed |= found
        waiting += [follows[name] for name in found if name in follows]
    return [port.name for port in ports if port.name in needed]


def _ancestors(node: Node) -> set[Node]:
    seen: set[Node] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting += () if one.target in _OF_SHAPE_ONLY else one.all_input_nodes
    return seen


def _refuse_hidden_randomness(program: ExportedProgram, algorithm: RLAlgorithm) -> None:
    for node in program.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise ExportError(
                f"{type(algorithm).__name__} cannot be exported: it draws random numbers by {node.target}, which cannot be "
                "made an input; export the deterministic policy, with TrainerConfig.epsilon_greedy=0"
            )


def _find_draws(module: PolicyModule) -> list[Port]:
    """An input for each call for random numbers in a step."""
    example = module.example()
    batch = example[0].shape[0]
    with NoiseFrom() as noise:
        module(*example)
    ports = []
    for index, (kind, drawn) in enumerate(noise.draws):
        if drawn.shape[:1] != (batch,):
            raise ExportError(
                f"a step draws random numbers of shape {tuple(drawn.shape)}, which are no batch of {batch}"
            )
        ports.append(Port.of(f"noise_{index}", "noise", str(index), TensorSpec.from_tensor(drawn, 1), kind))
    return ports


@contextmanager
def quietly() -> Iterator[None]:
    """Without the remarks of the exporters, which are for their authors."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "torch.fx", "onnxscript", "onnx_ir")]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
