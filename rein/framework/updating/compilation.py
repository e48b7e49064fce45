"""Losses and gradients of a minibatch as one compiled graph, for `TrainerConfig.compile`.

An update in eager mode is some hundred small operations, and for networks of usual size Python and dispatch take as long
as the arithmetic. Here the update is run once on tensors without data, which records every operation that `train_step`,
`calc_loss` and differentiation make; inductor turns that record into a few fused kernels. Random numbers come from
torch's generator in the same order as without compilation, so results differ by rounding only.

What is recorded has no branches: whatever depends on the state of Python objects would be frozen as it was. So only
algorithms that say `is_compilable` are compiled (each class for itself: what a subclass adds is not known), those whose
update has several forms name the form that is due by `update_form`, and an update that reads a schedule is refused. A
refused update is made without compilation, and the reason is logged once.
"""

import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from rein import nest
from rein.data_structures import Experience, LossInfo
from rein.distributions import distributions_to_params, extract_spec, params_to_distributions
from rein.framework.updating.compile_beside import CompilingProcess
from rein.framework.updating.gradients import Batch, losses, total_loss
from rein.framework.updating.graph_products import give_to_microkernel
from rein.framework.updating.product_sizes import graph_pays
from rein.framework.updating.settings import UpdateSettings
from rein.nest import Nest
from rein.runtime.active import ACTIVE
from rein.runtime.microkernel import is_faster
from rein.runtime.products import by_onednn
from rein.runtime.run import NoRunError
from rein.statistics.host_scalar import HostScalar

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from rein.framework.algorithm import Algorithm

logger = logging.getLogger(__name__)

_OPTIONS = {"fallback_random": True, "size_asserts": False}
MAX_GRAPHS = 4


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

T = TypeVar("T")

Weights = Sequence[Tensor | None]
"""Importance weights [B] of each batch."""

Result = tuple[LossInfo, list[Nest], list[Tensor | None], Tensor]
"""Averaged losses, priorities of each batch, the gradients of all parameters that are optimized, and the sum of their
squares."""


class NotCompilableError(Exception):
    """Why an update cannot be compiled."""


class _Slot(NamedTuple):
    """Where a module keeps a tensor."""

    tensors: dict[str, Any]
    name: str

    def get(self) -> Tensor:
        """The tensor that is there now, without gradient."""
        return self.tensors[self.name].detach()


class _Graph(NamedTuple):
    run: Callable[..., Any]
    state: list[_Slot]
    """Parameters and buffers, the first inputs."""
    has_gradient: list[bool]
    """Of each parameter that is optimized, whether this form of update moves it."""
    losses: Any
    """Structure of the losses and priorities."""
    products_by_onednn: bool


class _Recording(NamedTuple):
    """A graph as it was recorded, to be optimized by inductor."""

    graph: "GraphModule"
    inputs: list[Any]
    """Tensors."""
    result: _Graph

    def optimized(self) -> _Graph:
        """The graph that runs."""
        from torch._inductor import compile as compile_graph

        return self.result._replace(run=compile_graph(self.graph, self.inputs, options=_OPTIONS))


class CompiledUpdate:
    """The compiled updates of an algorithm, one for each form of update and shape of minibatch."""

    def __init__(
        self,
        algorithm: "Algorithm",
        settings: UpdateSettings,
        parameters: Sequence[Tensor],
        beside: bool = False,
        on_compiled: Callable[[], None] | None = None,
    ) -> None:
        """Compiles nothing yet.

        Args:
            algorithm: what learns.
            settings: how it learns.
            parameters: what is optimized.
            beside: let another process do most of the work, and make updates without compilation meanwhile.
            on_compiled: called when an update is compiled.
        """
        self._beside = beside
        self._on_compiled = on_compiled
        self._pending: dict[Hashable, tuple[CompilingProcess, _Recording]] = {}
        # A plain list keeps the algorithm from becoming a submodule of itself.
        self._algorithm = [algorithm]
        self._settings = settings
        self._parameters = list(parameters)
        self._graphs: dict[Hashable, _Graph | None] = {}
        self._refusal = _refusal(algorithm, settings)
        if self._refusal is not None:
            logger.log(logging.INFO if beside else logging.WARNING, "updates are not compiled: %s", self._refusal)

    def __call__(self, batches: Sequence[Batch], weights: Weights) -> Result | None:
        """Losses and gradients of an update; None if it is not compiled, and nothing was done.

        Args:
            batches: [B, T, ...] each.
            weights: importance weights of each.
        """
        if self._refusal is not None:
            return None
        data = nest.flatten([_rows(batch, weight) for batch, weight in zip(batches, weights, strict=True)])
        kinds = tuple((batch.is_offline, batch.pre_train) for batch in batches)
        form = self._algorithm[0].update_form()
        key = (form, kinds, tuple((leaf.shape, leaf.stride(), leaf.dtype) for leaf in data))
        graph = self._graphs.get(key)
        if graph is None:
            if key in self._graphs or (key not in self._pending and self._num_graphs >= MAX_GRAPHS):
                return None
            graph = self._beside_training(key, batches, weights) if self._beside else self._now(key, batches, weights)
            if graph is None:
                return None
        with torch.no_grad(), by_onednn(graph.products_by_onednn):
            outputs = graph.run(*[slot.get() for slot in graph.state], *data)
        split = len(outputs) - sum(graph.has_gradient)
        found = iter(outputs[split:])
        gradients = [next(found) if has else None for has in graph.has_gradient]
        loss_info, priorities = graph.losses.unflatten(outputs[: split - 1])
        return loss_info, priorities, gradients, outputs[split - 1]

    def __reduce__(self) -> Any:
        """A copy of the algorithm, in this process or another, compiles for itself."""
        return _nothing, ()

    @property
    def _num_graphs(self) -> int:
        return len(self._graphs) + len(self._pending)

    def _now(self, key: Hashable, batches: Sequence[Batch], weights: Weights) -> _Graph | None:
        """Compiles while training waits."""
        logger.info(
            "compiling the update of %s; this takes up to a minute the first time, and seconds later on",
            self._algorithm[0].name,
        )
        graph = self._attempt(lambda: self._record(batches, weights).optimized())
        self._graphs[key] = graph
        self._tell(graph)
        return graph

    def _beside_training(self, key: Hashable, batches: Sequence[Batch], weights: Weights) -> _Graph | None:
        """Begins to compile in another process; when that has ended, takes what it has left for inductor."""
        if key not in self._pending:
            begun = self._attempt(lambda: self._begin(batches, weights))
            if begun is not None:
                self._pending[key] = begun
                logger.info("compiling the update of %s beside training", self._algorithm[0].name)
            return None
        process, recording = self._pending[key]
        if process.is_running:
            return None
        del self._pending[key]
        failure = process.close()
        if failure is not None:
            self._refuse(failure)
            return None
        graph = self._graphs[key] = self._attempt(recording.optimized)
        self._tell(graph)
        return graph

    def _begin(self, batches: Sequence[Batch], weights: Weights) -> tuple[CompilingProcess, _Recording]:
        recording = self._record(batches, weights)
        return CompilingProcess(recording.graph, recording.inputs, _OPTIONS), recording

    def _record(self, batches: Sequence[Batch], weights: Weights) -> _Recording:
        return _record(self._algorithm[0], self._settings, self._parameters, batches, weights)

    def _attempt(self, step: Callable[[], T]) -> T | None:
        """What a step of compiling gives; None if it cannot be done, and then nothing is compiled any more."""
        try:
            return step()
        except NotCompilableError as error:
            self._refuse(str(error))
        except Exception as error:  # Whatever the compiler cannot do: the same update without it is always right.
            self._refuse(f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}")
        return None

    def _refuse(self, reason: str) -> None:
        self._refusal = reason
        logger.warning("the update of %s is not compiled: %s", self._algorithm[0].name, reason)

    def _tell(self, graph: _Graph | None) -> None:
        if graph is not None:
            logger.info("the update of %s is compiled", self._algorithm[0].name)
            if self._on_compiled is not None:
                self._on_compiled()


def _nothing() -> None:
    return None


def _refusal(algorithm: "Algorithm", settings: UpdateSettings) -> str | None:
    """Why the updates of `algorithm` cannot be compiled; None if they can."""
    from rein.framework.algorithm import Algorithm

    for module in algorithm.modules():
        if isinstance(module, Algorithm) and not vars(type(module)).get("is_compilable", False):
            return f"{type(module).__name__} does not say that its update may be compiled (is_compilable)"
        if getattr(module, "changes_with_progress", False):
            return f"{type(module).__name__} has a number that changes with progress, which a compiled update would fix"
        if getattr(module, "needs_update_infos", False):
            return (
                f"{type(module).__name__} keeps statistics of what an update computes, which compiled ones do not tell"
            )
    return None


def _rows(batch: Batch, weights: Tensor | None) -> Nest:
    """The tensors of a batch."""
    experience = batch.experience
    rollout_info = distributions_to_params(experience.rollout_info)
    return experience.time_step, experience.state, rollout_info, () if weights is None else weights


def _record(
    algorithm: "Algorithm",
    settings: UpdateSettings,
    optimized: Sequence[Tensor],
    batches: Sequence[Batch],
    weights: Weights,
) -> _Recording:
    from torch.fx.experimental.proxy_tensor import make_fx

    info_specs = [extract_spec(batch.experience.rollout_info, from_dim=2) for batch in batches]
    rows = [_rows(batch, weight) for batch, weight in zip(batches, weights, strict=True)]
    leaves, structure = nest.flatten(rows), nest.structure_of(rows)
    slots = _slots(algorithm)
    names = {id(parameter): name for name, parameter in algorithm.named_parameters()}
    trained = [names[id(parameter)] for parameter in optimized]
    has_gradient: list[bool] = []
    loss_structure: list[Any] = []

    def update(*inputs: Tensor) -> list[Tensor]:
        state = dict(zip(slots, inputs, strict=False))
        state.update({name: state[name].detach().requires_grad_() for name in trained})
        parts = []
        with torch.enable_grad(), _with_tensors(algorithm, state):
            inputs_of = structure.unflatten(inputs[len(slots) :])
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
        given = [gradient for gradient in gradients if gradient is not None]
        squares = torch.stack([gradient.float().square().sum() for gradient in given]).sum()
        return [*nest.flatten(result), squares, *given]

    inputs = [slot.get() for slot in slots.values()] + leaves
    with _outside_of_any_run():
        graph = make_fx(update, _BIASES_APART, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)
    if is_faster():
        give_to_microkernel(graph)
    result = _Graph(graph, list(slots.values()), has_gradient, loss_structure[0], graph_pays(graph))
    return _Recording(graph, inputs, result)


def _slots(algorithm: "Algorithm") -> dict[str, _Slot]:
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
                slots[name] = _Slot(
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
