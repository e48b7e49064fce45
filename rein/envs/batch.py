"""Worlds that are stepped one after the other in this process: the fastest way for cheap ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rein.envs.environment import BufferedEnvironment, stacked_frames
from rein.envs.faults import FaultPolicy
from rein.envs.rows import SINGLE_WORLDS, EnvRows, lost_states
from rein.envs.shared_block import BatchSpaces
from rein.envs.single import EnvFactory, close_quietly, describe, row_seed

__all__ = ["BatchEnvironment"]


def probe_spaces(factory: EnvFactory) -> BatchSpaces:
    """What the worlds of a factory take and give, found by making one."""
    env = factory.make()
    try:
        return describe(env)
    finally:
        close_quietly(env)


def batch_seeds(seed: int | None, batch_size: int) -> list[int]:
    """One seed per world; from the operating system's randomness if `seed` is None."""
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    return [row_seed(seed, row) for row in range(batch_size)]


class BatchEnvironment(BufferedEnvironment):
    """B single worlds in this process, writing straight into the buffers that the tensors show."""

    def __init__(
        self,
        factory: EnvFactory,
        batch_size: int,
        seed: int | None = None,
        fault_policy: FaultPolicy | None = None,
        num_slots: int = 2,
    ) -> None:
        """Makes the worlds.

        Args:
            factory: makes one world.
            batch_size: number of worlds.
            seed: of the whole batch; None for a random one.
            fault_policy: what to endure; its timeouts do not apply, since a call in this process cannot be stopped.
            num_slots: number of buffers that steps alternate between.
        """
        self._closed = True
        spaces = probe_spaces(factory)
        super().__init__(spaces, batch_size, num_slots=num_slots, fault_policy=fault_policy)
        seeds = batch_seeds(seed, batch_size)
        self._rows = EnvRows(factory, spaces, self._layout, self._slots, 0, seeds, self._log)

    def _reset_into(self, index: int) -> None:
        self._rows.reset(index)

    def _step_into(self, index: int) -> None:
        self._rows.step(index)

    @property
    def _form(self) -> str:
        return SINGLE_WORLDS

    def _cut_worlds(self, reason: str) -> dict[int, str]:
        return self._set_worlds(lost_states(self._slots[self._index], reason))

    def _get_worlds(self) -> Any:
        return self._rows.get_state()

    def _set_worlds(self, worlds: Any) -> dict[int, str]:
        return self._rows.set_state(worlds, self._index)

    def seed(self, seed: int) -> None:
        """Seeds all worlds, each differently, from their next `reset()` on."""
        self._rows.seed(batch_seeds(seed, self._batch_size))

    def render(self) -> NDArray[np.uint8]:
        """One frame of each world, [B, H, W, 3]."""
        return stacked_frames(self._rows.render(), "the environment")

    @property
    def envs(self) -> Sequence[Any]:
        """The single worlds, for looking inside."""
        return tuple(self._rows.envs)

    def _close(self) -> None:
        if hasattr(self, "_rows"):
            self._rows.close()
