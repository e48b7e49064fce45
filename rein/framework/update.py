"""One gradient update: from the losses of many steps to new parameters."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Parameter

from rein import nest
from rein.data_structures import BatchInfo, LossInfo
from rein.distributions import distributions_to_params, map_params
from rein.framework.gradient_noise import summarize_gradient_noise
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.optimizers import BoundLater
from rein.runtime import summary
from rein.runtime.schedules import as_scheduler

if TYPE_CHECKING:
    from rein.framework.algorithm import Algorithm


class NonFiniteLossError(FloatingPointError):
    """A loss became NaN or infinite; no parameter was changed by it."""


def update_with_gradient(
    algorithm: "Algorithm",
    loss_info: LossInfo,
    valid_masks: Tensor | None,
    weight: float,
    batch_info: BatchInfo | None,
) -> tuple[LossInfo, list[tuple[str, Parameter]]]:
    """Averages the losses, computes gradients, and steps every optimizer of `algorithm`."""
    optimizers = algorithm.optimizers()
    weights = importance_weights(algorithm._config, batch_info)
    config = algorithm._config
    if config is not None and config.summarize_gradient_noise_scale and summary.should_record_summaries():
        summarize_gradient_noise(algorithm.name, loss_info.loss, valid_masks, _parameters(optimizers))
    loss_info = average(loss_info, valid_masks, weights)
    _check_finite(algorithm.name, loss_info)
    # `zero_grad` of torch costs ten times as much, for its profiler and its compiler.
    for parameter in _parameters(optimizers):
        parameter.grad = None
    if isinstance(loss_info.loss, Tensor) and loss_info.loss.requires_grad:
        torch.autograd.backward(loss_info.loss if weight == 1.0 else weight * loss_info.loss)
    return loss_info, _step_all(algorithm, optimizers)


def _parameters(optimizers: list[Any]) -> list[Parameter]:
    """All parameters that the optimizers handle."""
    return [parameter for optimizer in optimizers for group in optimizer.param_groups for parameter in group["params"]]


def _step_all(algorithm: "Algorithm", optimizers: list[Any]) -> list[tuple[str, Parameter]]:
    """Steps the optimizers; the names and parameters that they handle."""
    for optimizer in optimizers:
        _step(optimizer)
    return _Updated(algorithm, optimizers)


def _step(optimizer: Any) -> None:
    """One step of an optimizer, of ours or of torch."""
    if isinstance(optimizer, BoundLater):
        optimizer.advance()
    else:
        optimizer.step()


def apply_gradients(algorithm: "Algorithm", loss_info: LossInfo) -> tuple[LossInfo, list[tuple[str, Parameter]]]:
    """What `update_with_gradient` does once losses are averaged and gradients are there."""
    _check_finite(algorithm.name, loss_info)
    return loss_info, _step_all(algorithm, algorithm.optimizers())


def in_mixed_precision(config: TrainerConfig | None, compute: Callable[[], Nest]) -> Nest:
    """What `compute` returns; with `enable_amp`, its matrix products are made in bfloat16.

    The results are float32 again, so that losses keep their precision. Bfloat16 has the range of float32: gradients need
    no scaling.
    """
    if config is None or not config.enable_amp:
        return compute()
    with torch.autocast(torch.get_default_device().type, dtype=torch.bfloat16):
        result = compute()
    return map_params(lambda tensor: tensor.float() if tensor.dtype == torch.bfloat16 else tensor, result)


class _Updated(list[tuple[str, Parameter]]):
    """The updated parameters with their names, looked up only if somebody asks."""

    def __init__(self, algorithm: "Algorithm", optimizers: list[Any]) -> None:
        super().__init__()
        self._source: tuple[Algorithm, list[Any]] | None = (algorithm, optimizers)

    def __iter__(self) -> Any:
        if self._source is not None:
            algorithm, optimizers = self._source
            self._source = None
            names = {param: name for name, param in algorithm.named_parameters()}
            self.extend((names.get(parameter, "?"), parameter) for parameter in _parameters(optimizers))
        return super().__iter__()


def importance_weights(config: TrainerConfig | None, batch_info: BatchInfo | None) -> Tensor | None:
    """Weights [B] that correct the bias of prioritized sampling; None without it."""
    if config is None or batch_info is None or not isinstance(batch_info.importance_weights, Tensor):
        return None
    if not config.priority_replay:
        return None
    weights = batch_info.importance_weights ** -as_scheduler(config.priority_replay_beta)()
    if config.normalize_importance_weights_by_max:
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


def _check_finite(name: str, loss_info: LossInfo) -> None:
    if not isinstance(loss_info.loss, Tensor) or bool(torch.isfinite(loss_info.loss)):
        return
    parts = {
        path or "loss": value.item()
        for path, value in nest.flatten_with_paths(loss_info.extra)
        if isinstance(value, Tensor) and value.numel() == 1
    }
    raise NonFiniteLossError(
        f"the loss of {name} is {loss_info.loss.item()}; its parts are {parts}. No parameter was changed. Lower the "
        "learning rate, clip gradients, or look for NaN in observations and rewards"
    )


def summarize(
    name: str,
    loss_info: LossInfo,
    params: list[tuple[str, Parameter]] | None,
    config: TrainerConfig | None,
) -> None:
    """Writes the losses of an update and, with `summarize_grads_and_vars`, gradients and parameters."""
    if not summary.should_record_summaries():
        return
    with summary.scope(name):
        _summarize_scalars("loss", loss_info.loss)
        _summarize_scalars("loss", loss_info.extra)
        if config is not None and config.summarize_grads_and_vars and params is not None:
            for param_name, param in params:
                summary.histogram(f"parameters/{param_name}", param.detach())
                if param.grad is not None:
                    summary.histogram(f"gradients/{param_name}", param.grad)


def _summarize_scalars(prefix: str, values: Nest) -> None:
    for path, value in nest.flatten_with_paths(values):
        if isinstance(value, Tensor) and value.numel() == 1:
            summary.scalar(f"{prefix}/{path}" if path else prefix, value.detach())


def summarize_distributions(name: str, distributions: Nest) -> None:
    """Writes histograms of the parameters of a nest of distributions."""
    for path, parameter in nest.flatten_with_paths(distributions_to_params(distributions)):
        summary.histogram(f"{name}/{path}", parameter.detach())
