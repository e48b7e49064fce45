"""Episode metrics of environments that report at different times."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from rein.data_structures import TimeStep
from rein.envs.metrics import EpisodeMetrics


class GroupedMetrics(EpisodeMetrics):
    """Follows groups of environments, each with steps of its own; windows and counts are those of all together."""

    def __init__(self, window: int, groups: int) -> None:
        """Follows nothing yet.

        Args:
            window: how many of the last episodes the averages are over.
            groups: how many there are.
        """
        super().__init__(window)
        self._num_groups = groups
        self._groups: dict[int, tuple[Any, Any]] = {}

    def update_group(self, group: int, time_steps: TimeStep) -> None:
        """Takes in steps of a group, [T, B, ...]."""
        self._running, self._is_whole = self._groups.get(group, (None, np.zeros(0, np.bool_)))
        self.update_all(time_steps)
        self._groups[group] = (self._running, self._is_whole)

    def forget_group(self, group: int) -> None:
        """Drops the episodes in progress of a group that was restarted."""
        self._groups.pop(group, None)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns everything but the clock; episodes in progress are those of one group after the other."""
        groups = [self._groups[group] for group in sorted(self._groups)]
        if groups and all(running is not None for running, _ in groups):
            self._running = np.concatenate([running for running, _ in groups])
            self._is_whole = np.concatenate([whole for _, whole in groups])
        return super().state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restores what `state_dict` gave; episodes in progress go back to groups of equal size."""
        super().load_state_dict(state)
        running, whole, count = self._running, self._is_whole, self._num_groups
        self._groups = {}
        if running is not None and len(running) % count == 0:
            parts = zip(np.split(running, count), np.split(whole, count), strict=True)
            self._groups = {index: (one.copy(), is_whole.copy()) for index, (one, is_whole) in enumerate(parts)}
