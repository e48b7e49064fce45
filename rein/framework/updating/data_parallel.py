"""Training in several processes that average their gradients: every copy makes the same steps, and stays the same.

A `GradientMean` takes the gradients of each update, wherever they come from, right before the optimizers step. So it holds
for replay, fresh rollouts, on-policy updates and the extra updates of parts alike.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Parameter

if TYPE_CHECKING:
    from rein.framework.algorithm import Algorithm


class GradientMean:
    """The mean of gradients over the processes of a group."""

    def __init__(self, group: Any | None = None) -> None:
        """Keeps the group.

        Args:
            group: of `torch.distributed`; None is the default one.
        """
        self._group: Any = dist.group.WORLD if group is None else group

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a group of processes cannot be sent to another one: activate ddp there")

    def __call__(self, values: Sequence[Tensor | None], parameters: Sequence[Parameter]) -> list[Tensor | None]:
        """The mean of gradients in the order of `parameters`; where only some processes have one, others count as 0.

        Args:
            values: of this process.
            parameters: what they are gradients of.
        """
        parts = [
            torch.zeros_like(parameter) if value is None else value.detach()
            for value, parameter in zip(values, parameters, strict=True)
        ]
        if not parts:
            return []
        known = torch.tensor([0.0 if value is None else 1.0 for value in values], device=parts[0].device)
        flat = torch.cat([*(part.reshape(-1).to(torch.float32) for part in parts), known])
        work = self._group.allreduce([flat])
        work.wait()
        counts = flat[len(flat) - len(known) :]
        flat = flat / self._group.size()
        means, begin = [], 0
        for part, count in zip(parts, counts, strict=True):
            mean = flat[begin : begin + part.numel()].reshape(part.shape).to(part.dtype)
            means.append(mean if count > 0 else None)
            begin += part.numel()
        return means


def activate(algorithm: "Algorithm", rank: int) -> None:
    """Lets `algorithm` and all below it average their gradients over the default group, from equal parameters on.

    Args:
        algorithm: the same on all processes; parameters and buffers become those of rank 0.
        rank: of this process.

    Raises:
        ValueError: the group is not there, or has another rank for this process.
    """
    from rein.framework.algorithm import Algorithm

    if not dist.is_available() or not dist.is_initialized():
        raise ValueError("activate_ddp needs a group of processes: call torch.distributed.init_process_group() first")
    if dist.get_rank() != rank:
        raise ValueError(f"activate_ddp got rank {rank}, but this process has rank {dist.get_rank()} in its group")
    broadcast(algorithm, parameters=True)
    mean = GradientMean()
    for module in algorithm.modules():
        if isinstance(module, Algorithm):
            module._gradient_mean = mean


def broadcast(algorithm: "Algorithm", parameters: bool = False) -> None:
    """Gives all processes the buffers of rank 0 and, if asked for, the parameters."""
    tensors = [*algorithm.parameters()] if parameters else []
    for tensor in (*tensors, *algorithm.buffers()):
        dist.broadcast(tensor.detach(), src=0)
