"""Summaries of what the networks of an algorithm put out."""

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from rein import nest
from rein.distributions import distributions_to_params
from rein.networks import Network
from rein.runtime import summary

if TYPE_CHECKING:
    from rein.framework.algorithm import Algorithm


def summarize_outputs(algorithm: "Algorithm") -> None:
    """Lets every network that is not part of another one record mean and deviation of its outputs.

    Args:
        algorithm: all networks below it, as it is now.
    """
    for name, module in algorithm.named_modules():
        inside = any(isinstance(algorithm.get_submodule(parent), Network) for parent in _ancestors(name))
        if isinstance(module, Network) and not inside:
            module.register_forward_hook(_recorder(name))


def _ancestors(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _recorder(name: str) -> Any:
    def record(module: nn.Module, inputs: Any, outputs: Any) -> None:
        if not summary.should_record_summaries():
            return
        for path, value in nest.flatten_with_paths(distributions_to_params(outputs[0])):
            if isinstance(value, Tensor) and value.is_floating_point() and value.numel() > 1:
                full = f"outputs/{name}/{path}".rstrip("/")
                summary.scalar(f"{full}/mean", value.detach().mean())
                summary.scalar(f"{full}/std", value.detach().std())

    return record
