"""Summaries of updates: losses, gradients, parameters and distributions."""

from torch import Tensor
from torch.nn import Parameter

from rein import nest
from rein.config import configurable
from rein.data_structures import LossInfo
from rein.distributions import distributions_to_params
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.runtime import summary


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
            summarize_variables(params)
            summarize_gradients(params)


@configurable
def summarize_variables(name_and_params: list[tuple[str, Parameter]], with_histogram: bool = True) -> None:
    """Writes parameters.

    Args:
        name_and_params: parameters with their names.
        with_histogram: histograms, which take long for large networks; else their norms.
    """
    for name, param in name_and_params:
        _summarize_tensor(f"parameters/{name}", param.detach(), with_histogram)


@configurable
def summarize_gradients(name_and_params: list[tuple[str, Parameter]], with_histogram: bool = True) -> None:
    """Writes the gradients of parameters; see `summarize_variables`."""
    for name, param in name_and_params:
        if param.grad is not None:
            _summarize_tensor(f"gradients/{name}", param.grad, with_histogram)


def _summarize_tensor(name: str, value: Tensor, with_histogram: bool) -> None:
    if with_histogram:
        summary.histogram(name, value)
    else:
        summary.scalar(f"{name}/norm", value.norm())


def _summarize_scalars(prefix: str, values: Nest) -> None:
    for path, value in nest.flatten_with_paths(values):
        if isinstance(value, Tensor) and value.numel() == 1:
            summary.scalar(f"{prefix}/{path}" if path else prefix, value.detach())


def summarize_distributions(name: str, distributions: Nest) -> None:
    """Writes histograms of the parameters of a nest of distributions."""
    for path, parameter in nest.flatten_with_paths(distributions_to_params(distributions)):
        summary.histogram(f"{name}/{path}", parameter.detach())
