"""Updates as compiled graphs, for `TrainerConfig.compile`.

An update in eager mode is some hundred small operations, and for networks of usual size Python and dispatch take as long
as the arithmetic. Here it is recorded (`rein.framework.updating.recording`), and inductor turns the record into a few fused
kernels: losses and gradients, and, where all optimizers are `Adam`, clipping and their steps as well. Results differ by
rounding only.

What is recorded has no branches: whatever depends on the state of Python objects would be frozen as it was. So only
algorithms that say `is_compilable` are compiled (each class for itself: what a subclass adds is not known), those whose
update has several forms name the form that is due by `update_form`, and an update that reads a schedule is refused. A
refused update is made without compilation, and the reason is logged once.
"""

import logging
import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torch import Tensor

from rein import nest
from rein.data_structures import LossInfo
from rein.framework.updating.compile_beside import CompilingProcess
from rein.framework.updating.gradients import Batch
from rein.framework.updating.recording import (
    OPTIONS,
    Graph,
    NotCompilableError,
    Outputs,
    Recording,
    StepsApartError,
    Weights,
    kept_by,
    record,
    rows_of,
)
from rein.framework.updating.settings import UpdateSettings
from rein.nest import Nest
from rein.optimizers.adam_in_graph import AdamInGraph, has_hooks
from rein.runtime.microkernel import is_ready

if TYPE_CHECKING:
    from rein.framework.algorithm import Algorithm

logger = logging.getLogger(__name__)

MAX_GRAPHS = 4

T = TypeVar("T")

Result = tuple[LossInfo, list[Nest], list[Tensor | None], Tensor]
"""Averaged losses, priorities of each batch, the gradients of all parameters that are optimized, and the sum of their
squares."""


class _Asked(NamedTuple):
    """What is wanted of a graph."""

    form: Hashable
    """Of the update and its data."""
    data: list[Tensor]
    steps: list[AdamInGraph]
    """Optimizers that it shall step."""

    @property
    def key(self) -> Hashable:
        """Of the graph."""
        return self.form, bool(self.steps)


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
        self._pending: dict[Hashable, tuple[CompilingProcess, Recording]] = {}
        # A plain list keeps the algorithm from becoming a submodule of itself.
        self._algorithm = [algorithm]
        self._settings = settings
        self._parameters = list(parameters)
        self._graphs: dict[Hashable, Graph | None] = {}
        self._steps: list[AdamInGraph] = []
        self._stepped: list[Any] = []
        self._apart: set[Hashable] = set()
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
        asked = self._asked(batches, weights, [])
        if self._steps and asked.form not in self._apart:
            return None
        graph = self._graph(asked, batches, weights)
        if graph is None:
            return None
        outputs = graph(asked.data)
        found = iter(outputs.rest)
        gradients = [next(found) if has else None for has in graph.has_gradient]
        return outputs.loss_info, outputs.priorities, gradients, outputs.squares

    def at_once(self, batches: Sequence[Batch], weights: Weights, optimizers: Sequence[Any]) -> Outputs | None:
        """A whole update: losses, gradients, and the steps of all optimizers; None if nothing was done.

        Nothing is done where it is not compiled (yet), where a graph cannot step an optimizer or is not made to, and where
        the loss or a gradient is not finite. After the first call `__call__` compiles only what cannot be made at once.

        Args:
            batches: [B, T, ...] each.
            weights: importance weights of each.
            optimizers: of the algorithm.
        """
        if not self.makes_steps(optimizers):
            return None
        steps = self._steps
        asked = self._asked(batches, weights, steps)
        graph = None if asked.form in self._apart else self._graph(asked, batches, weights)
        if graph is None or any(step.rates() is None for step in graph.stepped):
            return None
        outputs = graph(asked.data, kept_by(steps))
        if not (math.isfinite(outputs.loss_info.loss.item()) and math.isfinite(outputs.squares.item())):
            return None
        for step, norm in zip(graph.stepped, outputs.rest, strict=True):
            step.made(norm)
        return outputs

    def makes_steps(self, optimizers: Sequence[Any]) -> bool:
        """Whether graphs make the steps of optimizers, if they make updates at all."""
        if self._stepped != list(optimizers):
            self._steps, self._stepped = AdamInGraph.for_all(optimizers), list(optimizers)
        elif any(has_hooks(step.optimizer) for step in self._steps):
            self._steps = []
        return bool(self._steps) and self._refusal is None

    def _asked(self, batches: Sequence[Batch], weights: Weights, steps: list[AdamInGraph]) -> _Asked:
        data = nest.flatten([rows_of(batch, weight) for batch, weight in zip(batches, weights, strict=True)])
        kinds = tuple((batch.is_offline, batch.pre_train) for batch in batches)
        form = self._algorithm[0].update_form()
        shapes = tuple((leaf.shape, leaf.stride(), leaf.dtype) for leaf in data)
        return _Asked((form, kinds, shapes), data, steps)

    def _graph(self, asked: _Asked, batches: Sequence[Batch], weights: Weights) -> Graph | None:
        """The graph for what is asked, compiled if it has to be; None if there is none, or none yet."""
        key = asked.key
        graph = self._graphs.get(key)
        if graph is not None or key in self._graphs:
            return graph
        if key not in self._pending and self._num_graphs >= MAX_GRAPHS:
            return None
        try:
            return (self._beside_training if self._beside else self._now)(asked, batches, weights)
        except StepsApartError as error:
            logger.info("the update of %s is compiled without the step: %s", self._algorithm[0].name, error)
            self._apart.add(asked.form)
            return None

    def __reduce__(self) -> Any:
        """A copy of the algorithm, in this process or another, compiles for itself."""
        return _nothing, ()

    @property
    def _num_graphs(self) -> int:
        return len(self._graphs) + len(self._pending)

    def _now(self, asked: _Asked, batches: Sequence[Batch], weights: Weights) -> Graph | None:
        """Compiles while training waits."""
        logger.info(
            "compiling the update of %s; this takes up to a minute the first time, and seconds later on",
            self._algorithm[0].name,
        )
        graph = self._attempt(lambda: self._record(asked, batches, weights).optimized())
        self._graphs[asked.key] = graph
        self._tell(graph)
        return graph

    def _beside_training(self, asked: _Asked, batches: Sequence[Batch], weights: Weights) -> Graph | None:
        """Begins to compile in another process; when that has ended, takes what it has left for inductor."""
        key = asked.key
        if key not in self._pending:
            if not is_ready():
                return None
            begun = self._attempt(lambda: self._begin(asked, batches, weights))
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

    def _begin(self, asked: _Asked, batches: Sequence[Batch], weights: Weights) -> tuple[CompilingProcess, Recording]:
        recording = self._record(asked, batches, weights)
        return CompilingProcess(recording.graph, recording.inputs, OPTIONS), recording

    def _record(self, asked: _Asked, batches: Sequence[Batch], weights: Weights) -> Recording:
        return record(self._algorithm[0], self._settings, self._parameters, batches, weights, asked.steps)

    def _attempt(self, step: Callable[[], T]) -> T | None:
        """What a step of compiling gives; None if it cannot be done, and then nothing is compiled any more."""
        try:
            return step()
        except StepsApartError:
            raise
        except NotCompilableError as error:
            self._refuse(str(error))
        except Exception as error:  # Whatever the compiler cannot do: the same update without it is always right.
            self._refuse(f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}")
        return None

    def _refuse(self, reason: str) -> None:
        self._refusal = reason
        logger.warning("the update of %s is not compiled: %s", self._algorithm[0].name, reason)

    def _tell(self, graph: Graph | None) -> None:
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
