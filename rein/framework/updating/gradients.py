"""One update, in two halves: gradients are computed from batches, then applied to parameters.

`compute_gradients` has no side effects: no counter, target network, statistic or optimizer moves, so that it may run
anywhere, by a compiled graph or on another machine. `apply_gradients` steps the optimizers and lets the algorithm do what
follows an update. Whatever trains makes these two calls in a row.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from rein import nest
from rein.data_structures import BatchInfo, Experience, LossInfo, StepType
from rein.distributions import map_params
from rein.framework.steps import steps_at_once, steps_in_order, time_major
from rein.framework.updating.burn_in import burned_in
from rein.framework.updating.finite import admits, sum_of_squares
from rein.framework.updating.gradient_noise import summarize_gradient_noise
from rein.framework.updating.settings import UpdateSettings
from rein.nest import Nest
from rein.networks.state import zero_state
from rein.optimizers import BoundLater
from rein.runtime import summary
from rein.runtime.products import by_onednn
from rein.runtime.schedules import as_scheduler
from rein.runtime.watching import current_watcher

if TYPE_CHECKING:
    from rein.framework.algorithm import Algorithm
    from rein.framework.updating.compilation import CompiledUpdate


class NonFiniteLossError(FloatingPointError):
    """A loss became NaN or infinite; no parameter was changed by it."""


class Batch(NamedTuple):
    """What an update learns from, or a part of it."""

    experience: Experience
    """Sequences [B, T, ...], transformed and preprocessed."""
    is_offline: bool = False
    """Whether it comes from a saved buffer: `train_step_offline` and `calc_loss_offline` are called."""
    pre_train: bool = False
    """Whether the run has not acted yet."""


class Gradients(NamedTuple):
    """What `compute_gradients` gives and `apply_gradients` takes."""

    values: list[Tensor | None]
    """One for each of the parameters that are optimized, in their order; None where one takes no part."""
    loss_info: LossInfo
    """Losses averaged to scalars; of several batches the sum, and a list of what each has as `extra`."""
    priorities: list[Nest] = []  # noqa: RUF012 - never written to
    """[B] of each batch; `()` where its losses have none."""
    inputs: Nest = ()
    """Time steps of the last batch, [T, B, ...]; `()` if no `after_update` looks at them."""
    info: Nest = ()
    """What `calc_loss` got of the last batch, [T, B, ...]; `()` from a compiled update."""
    squares: Tensor | None = None
    """Sum of the squares of `values`, if whoever computed them found it on the way."""


# Computing.


def compute_gradients(
    algorithm: "Algorithm",
    batches: Sequence[Batch],
    settings: UpdateSettings,
    parameters: Sequence[Parameter],
    compiled: "CompiledUpdate | None" = None,
    products_by_onednn: bool = False,
) -> Gradients:
    """Gradients of the summed losses of some batches, each averaged over its own steps.

    Args:
        algorithm: what learns; it is left as it is.
        batches: at least one.
        settings: how it learns.
        parameters: what is optimized.
        compiled: makes the losses and gradients in one graph, if it can.
        products_by_onednn: who makes the matrix products of an update that is not compiled.

    Raises:
        NonFiniteLossError: the loss is NaN or infinite.
    """
    batches, weights, inputs = _ready(algorithm, batches, settings)
    # What is summarized is not compiled: summaries may look at anything.
    if compiled is not None and not summary.should_record_summaries():
        result = compiled(batches, weights)
        if result is not None:
            loss_info, priorities, values, squares = result
            _check_finite(algorithm, loss_info)
            return Gradients(values, loss_info, priorities, inputs, squares=squares)
    with by_onednn(products_by_onednn):
        parts = [losses(algorithm, batch, weight, settings) for batch, weight in zip(batches, weights, strict=True)]
        if settings.summarize_gradient_noise_scale and summary.should_record_summaries():
            raw, valid = parts[0].raw, valid_masks(time_major(batches[0].experience.step_type))
            summarize_gradient_noise(algorithm.name, raw.loss, valid, parameters)
        loss_info = total_loss([part.loss_info for part in parts])
        values = differentiate(algorithm, loss_info, parameters)
    return Gradients(values, loss_info, [part.loss_info.priority for part in parts], inputs, parts[-1].info)


def _ready(
    algorithm: "Algorithm", batches: Sequence[Batch], settings: UpdateSettings
) -> tuple[Sequence[Batch], list[Tensor | None], Nest]:
    """Batches to learn from, their importance weights [B], and the inputs that `after_update` gets."""
    weights = [importance_weights(settings, batch.experience.batch_info) for batch in batches]
    if settings.burn_in_steps:
        batches = [burned_in(algorithm, batch, settings.burn_in_steps) for batch in batches]
    return batches, weights, time_major(batches[-1].experience.time_step) if algorithm.has_own_after_update else ()


class Losses(NamedTuple):
    """The losses of a batch."""

    loss_info: LossInfo
    """Averaged to scalars, but for the priority [B]."""
    info: Nest
    """What they were computed from, [T, B, ...]."""
    raw: LossInfo
    """Before averaging, [T, B]."""


def losses(algorithm: "Algorithm", batch: Batch, weights: Tensor | None, settings: UpdateSettings) -> Losses:
    """What an algorithm loses on sequences.

    Args:
        algorithm: what learns.
        batch: [B, T, ...].
        weights: importance weights, [B], or None.
        settings: how it learns.
    """
    info = in_mixed_precision(settings, lambda: train_info(algorithm, batch, settings))
    raw = algorithm.calc_loss_offline(info, batch.pre_train) if batch.is_offline else algorithm.calc_loss(info)
    step_type = time_major(batch.experience.step_type)
    has_steps = any(isinstance(one, Tensor) and one.shape[:2] == step_type.shape for one in nest.flatten(raw))
    return Losses(average(raw, valid_masks(step_type) if has_steps else None, weights), info, raw)


def train_info(algorithm: "Algorithm", batch: Batch, settings: UpdateSettings) -> Nest:
    """Infos [T, B, ...] of `train_step` over sequences [B, T, ...]."""
    experience = batch.experience
    arguments = (experience.time_step, experience.state, experience.rollout_info)
    if settings.temporally_independent_train_step:
        if batch.is_offline and algorithm.has_own_offline_step:
            offline_step = partial(algorithm.train_step_offline, pre_train=batch.pre_train)
            return steps_at_once(offline_step, algorithm.train_state_spec, *arguments).info
        return algorithm.train_sequences(*arguments)
    state = zero_state(algorithm.train_state_spec, experience.step_type.shape[0])
    if not nest.is_empty(experience.state):
        first = nest.index_nest(experience.state, (slice(None), 0))
        state = nest.prune_nest_like(first, algorithm.train_state_spec, ())
    if batch.is_offline and algorithm.has_own_offline_step:
        offline_step = partial(algorithm.train_step_offline, pre_train=batch.pre_train)
        return steps_in_order(offline_step, experience.time_step, state, experience.rollout_info).info
    return algorithm.train_recurrent_sequences(experience.time_step, state, experience.rollout_info)


def total_loss(parts: Sequence[LossInfo]) -> LossInfo:
    """The sum of averaged losses; one alone is returned as it is."""
    if len(parts) == 1:
        return parts[0]
    return LossInfo(loss=sum(part.loss for part in parts), extra=[part.extra for part in parts])


def differentiate(
    algorithm: "Algorithm", loss_info: LossInfo, parameters: Sequence[Parameter], weight: float = 1.0
) -> list[Tensor | None]:
    """Gradients of an averaged loss by `parameters`; None for those that it does not depend on.

    Raises:
        NonFiniteLossError: the loss is NaN or infinite.
    """
    _check_finite(algorithm, loss_info)
    loss = loss_info.loss
    if not isinstance(loss, Tensor) or not loss.requires_grad or not parameters:
        return [None] * len(parameters)
    loss = loss if weight == 1.0 else weight * loss
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    values = torch.autograd.grad(loss, trained, allow_unused=True)
    if len(trained) == len(parameters):
        return list(values)
    found = iter(values)
    return [next(found) if parameter.requires_grad else None for parameter in parameters]


# Applying.


def apply_gradients(
    algorithm: "Algorithm", gradients: Gradients, parameters: Sequence[Parameter], optimizers: Sequence[Any]
) -> None:
    """Steps every optimizer, then lets `algorithm` do what follows an update; neither if a gradient is not finite.

    Args:
        algorithm: what learns.
        gradients: from `compute_gradients`, here or elsewhere.
        parameters: what they are gradients of.
        optimizers: those of `algorithm`.
    """
    if step_optimizers(algorithm, gradients.values, parameters, optimizers, gradients.squares):
        _after_update(algorithm, gradients)


def update_at_once(
    algorithm: "Algorithm",
    batches: Sequence[Batch],
    settings: UpdateSettings,
    optimizers: Sequence[Any],
    compiled: "CompiledUpdate",
) -> Gradients | None:
    """What `compute_gradients` and `apply_gradients` do in a row, by one graph; None if it cannot, and nothing was done.

    Args:
        algorithm: what learns.
        batches: at least one.
        settings: how it learns.
        optimizers: those of `algorithm`.
        compiled: has the graph.

    Returns:
        Everything but the gradients, which nobody has seen.
    """
    if algorithm._gradient_mean is not None or not compiled.makes_steps(optimizers):
        return None
    batches, weights, inputs = _ready(algorithm, batches, settings)
    outputs = compiled.at_once(batches, weights, optimizers)
    if outputs is None:
        return None
    admits(algorithm, [], [], outputs.squares.item())
    gradients = Gradients([], outputs.loss_info, outputs.priorities, inputs, squares=outputs.squares)
    _after_update(algorithm, gradients)
    return gradients


def _after_update(algorithm: "Algorithm", gradients: Gradients) -> None:
    algorithm.after_update(gradients.inputs, gradients.info)
    tell_update(algorithm, gradients.loss_info)


def step_optimizers(
    algorithm: "Algorithm",
    values: Sequence[Tensor | None],
    parameters: Sequence[Parameter],
    optimizers: Sequence[Any],
    squares: Tensor | None = None,
) -> bool:
    """Steps the optimizers; not if a gradient is NaN or infinite.

    Args:
        algorithm: what learns.
        values: gradients in the order of `parameters`.
        parameters: what they are gradients of.
        optimizers: those of `algorithm`.
        squares: sum of the squares of `values`, if known.

    Returns:
        Whether they were stepped.

    Raises:
        NonFiniteGradientError: it was not finite for too many updates in a row.
    """
    if algorithm._gradient_mean is not None:
        values, squares = algorithm._gradient_mean(values, parameters), None
    total = sum_of_squares(values) if squares is None else squares.item()
    if not admits(algorithm, parameters, values, total):
        for parameter in parameters:
            parameter.grad = None
        return False
    for parameter, value in zip(parameters, values, strict=True):
        parameter.grad = value
    for optimizer in optimizers:
        # Ours skip what torch's `step` does for its profiler.
        if isinstance(optimizer, BoundLater):
            optimizer.advance(total if len(optimizers) == 1 else None)
        else:
            optimizer.step()
    return True


def tell_update(algorithm: "Algorithm", loss_info: LossInfo) -> None:
    """Tells who watches the run, if anybody does, that parameters were updated."""
    watcher = current_watcher()
    if watcher is not None:
        detached = nest.map_structure(lambda one: one.detach() if isinstance(one, Tensor) else one, loss_info)
        watcher.updated(algorithm.name, detached)


def handled_parameters(optimizers: Sequence[Any]) -> list[Parameter]:
    """All parameters that the optimizers handle, in their order, each once."""
    every = [parameter for optimizer in optimizers for group in optimizer.param_groups for parameter in group["params"]]
    return list(dict.fromkeys(every))


class NamedParameters(list[tuple[str, Parameter]]):
    """Parameters with their names, looked up only if somebody asks."""

    def __init__(self, algorithm: "Algorithm", parameters: Sequence[Parameter]) -> None:
        """Keeps what to look up."""
        super().__init__()
        self._source: tuple[Algorithm, Sequence[Parameter]] | None = (algorithm, parameters)

    def __iter__(self) -> Any:
        if self._source is not None:
            algorithm, parameters = self._source
            self._source = None
            names = {param: name for name, param in algorithm.named_parameters()}
            self.extend((names.get(parameter, "?"), parameter) for parameter in parameters)
        return super().__iter__()


# Weights, masks and precision.


def importance_weights(settings: UpdateSettings, batch_info: BatchInfo | Any) -> Tensor | None:
    """Weights [B] that correct the bias of prioritized sampling; None without it."""
    weights = getattr(batch_info, "importance_weights", None)
    if not settings.priority_replay or not isinstance(weights, Tensor):
        return None
    weights = weights ** -as_scheduler(settings.priority_replay_beta)()
    if settings.normalize_importance_weights_by_max:
        weights = weights / weights.max()
    return weights


def average(loss_info: LossInfo, valid_masks: Tensor | None, weights: Tensor | None = None) -> LossInfo:
    """Turns losses [T, B] into scalars.

    Args:
        loss_info: `loss` and `extra` hold tensors [T, B], [B] or scalars.
        valid_masks: [T, B], 0 for steps that do not count; such steps still count in the denominator.
        weights: [B] factors of `loss`.

    Returns:
        `loss` is the mean of the masked losses plus `scalar_loss`; `extra` holds masked means.
    """

    def mean(tensor: Tensor) -> Tensor:
        if valid_masks is not None and tensor.shape[:2] == valid_masks.shape:
            tensor = tensor * nest.expand_dims_as(valid_masks, tensor)
        return tensor.mean()

    loss = loss_info.loss
    if isinstance(loss, Tensor):
        loss = mean(loss * weights) if weights is not None and loss.ndim > 0 else mean(loss)
    if isinstance(loss_info.scalar_loss, Tensor):
        scalar = loss_info.scalar_loss
        if scalar.ndim != 0:
            raise ValueError(f"scalar_loss has shape {tuple(scalar.shape)}: it must be a scalar")
        loss = loss + scalar if isinstance(loss, Tensor) else scalar
    extra = nest.map_structure(lambda t: mean(t.detach()) if isinstance(t, Tensor) else t, loss_info.extra)
    return loss_info._replace(loss=loss, extra=extra)


def valid_masks(step_type: Tensor) -> Tensor:
    """1.0 for steps that an action was taken at, 0.0 for LAST ones; same shape."""
    return (step_type != StepType.LAST).to(torch.float32)


def in_mixed_precision(settings: UpdateSettings, compute: Callable[[], Nest]) -> Nest:
    """What `compute` returns; with `enable_amp`, its matrix products are made in bfloat16.

    The results are float32 again, so that losses keep their precision. Bfloat16 has the range of float32: gradients need
    no scaling.
    """
    if not settings.enable_amp:
        return compute()
    with torch.autocast(torch.get_default_device().type, dtype=torch.bfloat16):
        result = compute()
    return map_params(lambda tensor: tensor.float() if tensor.dtype == torch.bfloat16 else tensor, result)


def _check_finite(algorithm: "Algorithm", loss_info: LossInfo) -> None:
    if not isinstance(loss_info.loss, Tensor) or math.isfinite(loss_info.loss.item()):
        return
    parts = {
        path or "loss": value.item()
        for path, value in nest.flatten_with_paths(loss_info.extra)
        if isinstance(value, Tensor) and value.numel() == 1
    }
    raise NonFiniteLossError(
        f"the loss of {algorithm.name} is {loss_info.loss.item()}; its parts are {parts}. No parameter was changed. Lower "
        "the learning rate, clip gradients, or look for NaN in observations and rewards"
    )
