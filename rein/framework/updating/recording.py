"""Recording an update as one graph of operations: losses and gradients, or all the way to new parameters.

The update is run once on tensors without data, which records every operation that `train_step`, `calc_loss` and
differentiation make, and if asked for clipping and the optimizers' steps as well. Parameters, buffers and what optimizers
keep are inputs of the graph; one that makes the steps writes to them, unless the loss or a gradient is not finite.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.data_structures import Experience, LossInfo
from rein.distributions import distributions_to_params, extract_spec, params_to_distributions
from rein.framework.updating.gradients import Batch, losses, total_loss
from rein.framework.updating.graph_products import give_to_microkernel, leave_out_columns
from rein.framework.updating.graph_sums import store_terms
from rein.framework.updating.product_sizes import graph_pays
from rein.framework.updating.settings import UpdateSettings
from rein.nest import Nest
from rein.optimizers.adam_in_graph import AdamInGraph, computed_once
from rein.runtime.active import ACTIVE
from rein.runtime.microkernel import is_faster
from rein.runtime.products import by_onednn
from rein.runtime.run import NoRunError
from rein.statistics.host_scalar import HostScalar

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from rein.framework.algorithm import Algorithm

OPTIONS = {"fallback_random": True, "size_asserts": False}
"""Of inductor. Random numbers come from torch's generator in the same order as without compilation."""

_MANY = 2**16

Weights = Sequence[Tensor | None]
"""Importance weights [B] of each batch."""


def _product_plus_bias(bias: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    # Where the product is rounded to bfloat16, the bias is added before that.
    if left.dtype != torch.float32 or beta != 1 or alpha != 1:
        return NotImplemented
    return (torch.mm(left, right) if left.ndim == 2 else torch.bmm(left, right)) + bias


_BIASES_APART: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.addmm.default: _product_plus_bias,
    torch.ops.aten.baddbmm.default: _product_plus_bias,
}
"""A product with a bias first fills its result with copies of it; apart, the kernel that comes next adds the bias."""


class NotCompilableError(Exception):
    """Why an update cannot be compiled."""


class StepsApartError(Exception):
    """An optimizer moves only some of its parameters, so its steps cannot be made in the graph."""


class Slot(NamedTuple):
    """Where a module keeps a tensor."""

    tensors: dict[str, Any]
    name: str

    def get(self) -> Tensor:
        """The tensor that is there now, without gradient."""
        return self.tensors[self.name].detach()


class Graph(NamedTuple):
    """A recorded update, and what its inputs and outputs are."""

    run: Callable[..., Any]
    state: list[Slot]
    """Parameters and buffers, the first inputs; data follows, then what each optimizer keeps and its rates."""
    has_gradient: list[bool]
    """Of each parameter that is optimized, whether this form of update moves it."""
    losses: Any
    """Structure of the losses and priorities, the first outputs; the sum of all squares of gradients follows."""
    stepped: list[AdamInGraph]
    """Optimizers whose steps it makes; the norms of their gradients are the last outputs, or else the gradients are."""
    products_by_onednn: bool

    def __call__(self, data: Sequence[Tensor], kept: Sequence[Tensor] = ()) -> "Outputs":
        """Runs it on the parameters of now.

        Args:
            data: leaves of the minibatches.
            kept: of optimizers.
        """
        with torch.no_grad(), by_onednn(self.products_by_onednn):
            outputs = self.run(*[slot.tensors[slot.name] for slot in self.state], *data, *kept)
        split = len(outputs) - (len(self.stepped) or sum(self.has_gradient))
        loss_info, priorities = self.losses.unflatten(outputs[: split - 1])
        return Outputs(loss_info, priorities, outputs[split - 1], outputs[split:])


class Outputs(NamedTuple):
    """What a graph gives."""

    loss_info: LossInfo
    """Averaged losses."""
    priorities: list[Nest]
    """[B] of each batch."""
    squares: Tensor
    """[] the sum of the squares of all gradients."""
    rest: list[Tensor]
    """Gradients, or norms: see `Graph.stepped`."""


class Recording(NamedTuple):
    """A graph as it was recorded, to be optimized by inductor."""

    graph: "GraphModule"
    inputs: list[Any]
    """Tensors."""
    result: Graph

    def optimized(self) -> Graph:
        """The graph that runs."""
        from torch._inductor import compile as compile_graph

        return self.result._replace(run=compile_graph(self.graph, self.inputs, options=OPTIONS))


def rows_of(batch: Batch, weights: Tensor | None) -> Nest:
    """The tensors of a batch, with its importance weights [B]."""
    experience = batch.experience
    rollout_info = distributions_to_params(experience.rollout_info)
    return experience.time_step, experience.state, rollout_info, () if weights is None else weights


def record(
    algorithm: "Algorithm",
    settings: UpdateSettings,
    optimized: Sequence[Tensor],
    batches: Sequence[Batch],
    weights: Weights,
    steps: Sequence[AdamInGraph] = (),
) -> Recording:
    """Records an update.

    Args:
        algorithm: what learns.
        settings: how it learns.
        optimized: parameters that are optimized.
        batches: [B, T, ...] each, like those that will be learnt from.
        weights: importance weights of each.
        steps: the optimizers, if their steps belong to the graph.

    Raises:
        NotCompilableError: it depends on what a graph cannot have.
        StepsApartError: `steps` cannot belong to it.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    info_specs = [extract_spec(batch.experience.rollout_info, from_dim=2) for batch in batches]
    rows = [rows_of(batch, weight) for batch, weight in zip(batches, weights, strict=True)]
    leaves, structure = nest.flatten(rows), nest.structure_of(rows)
    slots = _slots(algorithm)
    names = {id(parameter): name for name, parameter in algorithm.named_parameters()}
    trained = [names[id(parameter)] for parameter in optimized]
    kept = kept_by(steps)
    has_gradient: list[bool] = []
    loss_structure: list[Any] = []
    stepped: list[AdamInGraph] = []

    def update(*inputs: Tensor) -> list[Tensor]:
        given = dict(zip(slots, inputs, strict=False))
        state = given | {name: given[name].detach().requires_grad_() for name in trained}
        parts = []
        with torch.enable_grad(), _with_tensors(algorithm, state):
            inputs_of = structure.unflatten(inputs[len(slots) : len(slots) + len(leaves)])
            for batch, spec, (time_step, rollout_state, params, importance) in zip(
                batches, info_specs, inputs_of, strict=True
            ):
                rollout_info = params_to_distributions(params, spec)
                experience = Experience(time_step, state=rollout_state, rollout_info=rollout_info)
                weight = importance if isinstance(importance, Tensor) else None
                parts.append(losses(algorithm, batch._replace(experience=experience), weight, settings).loss_info)
            loss_info = total_loss(parts)
            if not isinstance(loss_info.loss, Tensor):
                raise NotCompilableError("the update has no loss")
            gradients = torch.autograd.grad(loss_info.loss, [state[name] for name in trained], allow_unused=True)
        has_gradient[:] = [gradient is not None for gradient in gradients]
        priorities = [nest.detach(part.priority) for part in parts]
        result = (loss_info._replace(loss=loss_info.loss.detach(), priority=()), priorities)
        loss_structure[:] = [nest.structure_of(result)]
        found = {name: one for name, one in zip(trained, gradients, strict=True) if one is not None}
        squares_of = {name: _sum_of_squares(one) for name, one in found.items()}
        squares = torch.stack(list(squares_of.values())).sum()
        if not steps:
            return [*nest.flatten(result), squares, *found.values()]
        is_finite = computed_once((torch.isfinite(loss_info.loss.detach()) & torch.isfinite(squares)).float()) > 0.0
        given_kept = inputs[len(slots) + len(leaves) :]
        norms = _make_steps(steps, names, given, found, squares_of, given_kept, is_finite, stepped)
        return [*nest.flatten(result), squares, *norms]

    inputs = [slot.get() for slot in slots.values()] + leaves + kept
    with _outside_of_any_run():
        graph = make_fx(update, _BIASES_APART, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)
    leave_out_columns(graph)
    if is_faster():
        give_to_microkernel(graph)
    store_terms(graph)
    result = Graph(graph, list(slots.values()), has_gradient, loss_structure[0], stepped, graph_pays(graph))
    return Recording(graph, inputs, result)


def _sum_of_squares(gradient: Tensor) -> Tensor:
    squares = gradient.float().square()
    # Row by row where they are many: inductor shares rows among threads, where a sum of all takes care of rounding first.
    return squares.sum(-1).sum() if squares.ndim > 1 and squares.numel() >= _MANY else squares.sum()


def kept_by(steps: Sequence[AdamInGraph]) -> list[Tensor]:
    """What optimizers keep and their rates, as a graph gets them; rates as they were for the last step."""
    return [tensor for step in steps for tensor in (*step.kept(), step.last_rates)]


def _make_steps(
    steps: Sequence[AdamInGraph],
    names: dict[int, str],
    state: Mapping[str, Tensor],
    gradients: Mapping[str, Tensor],
    squares: Mapping[str, Tensor],
    kept: Sequence[Tensor],
    is_finite: Tensor,
    stepped: list[AdamInGraph],
) -> list[Tensor]:
    """Writes the steps of optimizers to `state` and `kept` where `is_finite`; returns the norms of their gradients."""
    stepped.clear()
    norms, place = [], 0
    for step in steps:
        own = [names[id(parameter)] for parameter in step.parameters]
        averages, rates = kept[place : place + 2 * len(own)], kept[place + 2 * len(own)]
        place += 2 * len(own) + 1
        moving = [gradients[name] for name in own if name in gradients]
        if not moving:
            continue
        if len(moving) < len(own):
            raise StepsApartError(f"{step.optimizer.name} moves {len(moving)} of {len(own)} parameters")
        parameters = [state[name] for name in own]
        made = step.step(parameters, moving, [squares[name] for name in own], averages, rates)
        for old, new in zip((*parameters, *averages), (*made.parameters, *made.kept), strict=True):
            old.copy_(torch.where(is_finite, new, old))
        norms.append(made.norm)
        stepped.append(step)
    return norms


def _slots(algorithm: "Algorithm") -> dict[str, Slot]:
    """Where the parameters and buffers are that a graph gets as inputs, by name.

    Numbers on the host are not among them if `update_form` says what depends on them.
    """
    host = set()
    if algorithm.update_form() is not None:
        host = {id(b) for module in algorithm.modules() if isinstance(module, HostScalar) for b in module.buffers()}
    slots = {}
    for names in (algorithm.named_parameters(), algorithm.named_buffers()):
        for name, tensor in names:
            path, _, attribute = name.rpartition(".")
            module = algorithm.get_submodule(path)
            if id(tensor) not in host:
                slots[name] = Slot(
                    module._parameters if attribute in module._parameters else module._buffers, attribute
                )
    return slots


@contextmanager
def _with_tensors(algorithm: "Algorithm", state: dict[str, Tensor]) -> Iterator[None]:
    """Puts `state` in the place of parameters and buffers."""
    from torch.nn.utils.stateless import _reparametrize_module

    with _reparametrize_module(algorithm, state, tie_weights=True):
        yield


@contextmanager
def _outside_of_any_run() -> Iterator[None]:
    """Within it there are no summaries, and schedules cannot be read: a compiled graph would keep the value of now."""
    token = ACTIVE.set(None)
    try:
        yield
    except NoRunError as error:
        raise NotCompilableError("it depends on a schedule, whose value of now a compiled graph would keep") from error
    finally:
        ACTIVE.reset(token)
