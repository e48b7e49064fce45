"""Keeping target networks behind the networks they follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.runtime import Scheduler, as_scheduler
from rein.statistics.host_scalar import HostScalar

Followed = nn.Module | Tensor


@configurable(blacklist=["models", "target_models"])
class TargetUpdater(nn.Module):
    """Moves target models towards models every so many calls.

    Only the number of calls is part of its state, so a resumed run updates at the same moments; the models belong to
    whoever made them.
    """

    def __init__(
        self,
        models: Followed | Sequence[Followed],
        target_models: Followed | Sequence[Followed],
        tau: float | Scheduler = 1.0,
        period: int = 1,
        copy: bool = True,
    ):
        """Pairs models with their targets.

        Args:
            models: a module or parameter, or several.
            target_models: of the same structure, in the same order.
            tau: how far targets move at each update; 1 copies.
            period: number of calls from one update to the next.
            copy: whether targets start equal to their models.
        """
        super().__init__()
        if period < 1:
            raise ValueError(f"period must be at least 1 call, got {period}")
        sources, targets = _as_list(models), _as_list(target_models)
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} models, but {len(targets)} target models")
        # In a tuple, hidden from torch: the models must not appear in the state a second time.
        self._pairs = tuple(zip(sources, targets, strict=True))
        self._tau = as_scheduler(tau)
        self._period = period
        self._calls = HostScalar(0)
        self._found: _Found | None = None
        if copy:
            self._move(1.0)

    def forward(self) -> None:
        """Counts one call, and moves the targets if a period is complete."""
        calls = self._calls.get() + 1
        self._calls.set(calls)
        if calls % self._period == 0:
            self._move(self._tau())

    def update(self) -> None:
        """Does the same as calling the updater."""
        self.forward()

    def _move(self, tau: float) -> None:
        if self._found is None:
            self._found = _find(self._pairs)
        sources, targets, with_buffers = self._found
        _lerp(sources, targets, tau)
        if tau > 0.0:
            for source, target in with_buffers:
                copy_tensors(list(source.buffers()), list(target.buffers()))


class _Found(NamedTuple):
    """What follows what."""

    sources: list[Tensor]
    targets: list[Tensor]
    """Parameters, in the order of `sources`."""
    with_buffers: list[tuple[nn.Module, nn.Module]]


def _find(pairs: Iterable[tuple[Followed, Followed]]) -> _Found:
    """Walks the models once: parameters stay the same objects, and all of them move in one call."""
    found = _Found([], [], [])
    for source, target in pairs:
        if isinstance(source, nn.Module) and isinstance(target, nn.Module):
            found.sources.extend(source.parameters())
            found.targets.extend(target.parameters())
            if next(source.buffers(), None) is not None:
                found.with_buffers.append((source, target))
        elif isinstance(source, Tensor) and isinstance(target, Tensor):
            found.sources.append(source)
            found.targets.append(target)
        else:
            raise TypeError(f"{type(source).__name__} cannot be followed by {type(target).__name__}")
    _check_averages(found.sources, found.targets)
    return found


def _as_list(models: Followed | Sequence[Followed]) -> list[Followed]:
    if isinstance(models, nn.ModuleList):
        return list(models)
    return [models] if isinstance(models, nn.Module | Tensor) else list(models)


@torch.no_grad()
def soft_update(source: nn.Module | Iterable[Tensor], target: nn.Module | Iterable[Tensor], tau: float) -> None:
    """Moves each target towards its source, in place: `target += tau * (source - target)`.

    Lillicrap et al. (2016), "Continuous control with deep reinforcement learning", algorithm 1. Of modules,
    parameters are averaged and buffers copied, because averaging running statistics or counters has no meaning.

    Args:
        source: a module, or tensors in the order of `target`.
        target: a module of the same structure, or tensors.
        tau: 0 changes nothing, 1 copies.
    """
    if isinstance(source, nn.Module) != isinstance(target, nn.Module):
        raise TypeError(
            f"source and target must both be modules or both be tensors, got {type(source).__name__} "
            f"and {type(target).__name__}"
        )
    if isinstance(source, nn.Module) and isinstance(target, nn.Module):
        sources: list[Tensor] = list(source.parameters())
        targets: list[Tensor] = list(target.parameters())
        if tau > 0.0:
            copy_tensors(list(source.buffers()), list(target.buffers()))
    else:
        sources, targets = list(source), list(target)  # type: ignore[arg-type]
    _check_averages(sources, targets)
    _lerp(sources, targets, tau)


@torch.no_grad()
def copy_tensors(source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
    """Copies each source into its target, in place.

    Args:
        source: tensors.
        target: tensors of the same shapes, in the same order.
    """
    _check_pairs(source, target)
    if target:
        torch._foreach_copy_(list(target), list(source))


@torch.no_grad()
def _lerp(source: list[Tensor], target: list[Tensor], tau: float) -> None:
    if not 0.0 <= tau <= 1.0:
        raise ValueError(f"tau must be in [0, 1], got {tau}")
    if target:
        # lerp_ computes the last bit differently from a copy at weight one.
        if tau == 1.0:
            torch._foreach_copy_(target, source)
        else:
            torch._foreach_lerp_(target, source, tau)


def _check_averages(source: list[Tensor], target: list[Tensor]) -> None:
    _check_pairs(source, target)
    if not all(tensor.is_floating_point() for tensor in target):
        raise TypeError("only floating-point tensors can be averaged; use copy_tensors for the others")


def _check_pairs(source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
    if len(source) != len(target):
        raise ValueError(f"{len(source)} source tensors, but {len(target)} target tensors")
    for i, (a, b) in enumerate(zip(source, target, strict=True)):
        if a.shape != b.shape:
            raise ValueError(f"tensor {i} has shape {tuple(a.shape)} in the source but {tuple(b.shape)} in the target")
