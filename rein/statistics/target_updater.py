"""Keeping target networks behind the networks they follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from torch import Tensor, nn

from rein.config import configurable
from rein.ops import soft_update
from rein.ops.polyak import copy_tensors
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
        soft_update(sources, targets, tau)
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
    return found


def _as_list(models: Followed | Sequence[Followed]) -> list[Followed]:
    if isinstance(models, nn.ModuleList):
        return list(models)
    return [models] if isinstance(models, nn.Module | Tensor) else list(models)
