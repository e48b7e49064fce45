"""Schedules of the temperature with which actions are drawn from visit counts."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rein.config import configurable
from rein.runtime.run import current_run_or_none

Pairs = Sequence[tuple[float, float]]


@configurable
class VisitSoftmaxTemperatureByMoves:
    """A temperature for each part of a game."""

    def __init__(self, move_temperature_pairs: Pairs = [(29, 1.0), (10000, 0.0001)]) -> None:  # noqa: B006 - only read
        """Keeps the schedule.

        Args:
            move_temperature_pairs: (moves, temperature), moves ascending: the temperature holds for games in which at most
                so many moves were made, the first move being number 0; the last one holds for ever.
        """
        self._pairs = _checked("move_temperature_pairs", move_temperature_pairs)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"move_temperature_pairs": self._pairs}

    def __call__(self, steps: Tensor) -> Tensor:
        """Temperatures, float of the shape of `steps`, which counts the moves that were made."""
        if len(self._pairs) == 1:
            return torch.full(steps.shape, self._pairs[0][1], device=steps.device)
        limits = torch.tensor([moves for moves, _ in self._pairs[:-1]], device=steps.device)
        temperatures = torch.tensor([temperature for _, temperature in self._pairs], device=steps.device)
        return temperatures[(steps.unsqueeze(-1) > limits).sum(-1)]


@configurable
class VisitSoftmaxTemperatureByProgress:
    """A temperature for each part of a training run."""

    def __init__(
        self,
        progress_temperature_pairs: Pairs = [(0.5, 1.0), (0.75, 0.5), (1, 0.25)],  # noqa: B006 - only read
    ) -> None:
        """Keeps the schedule.

        Args:
            progress_temperature_pairs: (progress, temperature), progress ascending in [0, 1]: the temperature holds before
                that progress; the last one from there on too.
        """
        self._pairs = _checked("progress_temperature_pairs", progress_temperature_pairs)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"progress_temperature_pairs": self._pairs}

    def __call__(self, steps: Tensor) -> Tensor:
        """Temperatures, float of the shape of `steps`; all are the same. Outside of a run they are those of its start."""
        run = current_run_or_none()
        progress = 0.0 if run is None else run.progress
        held = [temperature for until, temperature in self._pairs if progress < until]
        return torch.full(steps.shape, held[0] if held else self._pairs[-1][1], device=steps.device)


def _checked(name: str, pairs: Pairs) -> list[tuple[float, float]]:
    result = [(float(until), float(temperature)) for until, temperature in pairs]
    if not result or any(later[0] <= earlier[0] for earlier, later in itertools.pairwise(result)):
        raise ValueError(f"{name} is {list(pairs)}: give at least one pair, the first numbers ascending")
    if any(temperature <= 0 for _, temperature in result):
        raise ValueError(f"{name} is {list(pairs)}: temperatures must be positive; a tiny one is as good as 0")
    return result
