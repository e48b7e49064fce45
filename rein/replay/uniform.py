"""Where sequences start that are drawn uniformly, all or only recent ones."""

import math

import numpy as np
import torch
from torch import Tensor

from rein.replay.kernels import compiled

__all__ = ["UniformStarts", "recent_share"]


class UniformStarts:
    """Draws starts of sequences from a ring of steps per environment.

    All starts of all environments are numbered, by environment and then by position; a draw is a number. Draws are
    sorted, which orders a batch by environment and lets neighbours share cache lines.
    """

    def __init__(
        self,
        pos: Tensor,
        size: Tensor,
        num_ignored: int,
        with_replacement: bool,
        generator: torch.Generator | None,
    ) -> None:
        """Starts in the ring whose positions and sizes are given.

        Args:
            pos: int64 [num_envs], positions of the next steps, kept by the buffer.
            size: int64 [num_envs], numbers of stored steps, kept by the buffer.
            num_ignored: number of oldest steps of each environment at which no sequence starts.
            with_replacement: whether a batch may hold a start twice although there are enough others.
            generator: source of randomness, or None for torch's global one.
        """
        self._pos, self._size = pos, size
        self._num_envs, self._num_ignored = len(pos), num_ignored
        self._with_replacement, self._generator = with_replacement, generator
        self._loops = compiled(pos.device)
        self._counts = torch.zeros_like(pos)
        self._ring_at = (len(pos), pos.data_ptr(), size.data_ptr())
        self._counts_at = self._counts.data_ptr()

    def count(self, length: int) -> int:
        """Number of starts of sequences of `length` steps, of all environments together."""
        if self._loops is None:
            torch.clamp(self._size - (self._num_ignored + length - 1), min=0, out=self._counts)
            return int(self._counts.sum())
        total: int = self._loops.count_starts(*self._ring_at, self._num_ignored, length, self._counts_at)
        return total

    def draw(self, num: int, total: int) -> Tensor:
        """int64 [num]: numbers below `total`, sorted, without repetition as far as possible unless wanted."""
        device = self._pos.device
        if self._with_replacement:
            return _sort(torch.randint(total, (num,), generator=self._generator, device=device))
        if num <= total:
            return self._draw_distinct(num, total)
        all_of_them = [torch.arange(total, device=device)] * (num // total)
        return _sort(torch.cat([*all_of_them, self._draw_distinct(num % total, total)]))

    def _draw_distinct(self, num: int, total: int) -> Tensor:
        """int64 [num]: distinct numbers below `total`, sorted, every set of them equally likely (Floyd's method)."""
        device = self._pos.device
        uniform = torch.rand(num, dtype=torch.float64, generator=self._generator, device=device)
        if self._loops is not None:
            draws = torch.from_numpy(np.empty(num, np.int64))
            self._loops.draw_distinct(uniform.data_ptr(), num, total, draws.data_ptr())
            return draws
        taken: set[int] = set()
        for last, number in enumerate(uniform.tolist(), total - num):
            drawn = min(int(number * (last + 1)), last)
            taken.add(last if drawn in taken else drawn)
        return torch.tensor(sorted(taken), dtype=torch.int64, device=device)

    def draw_recent(self, num: int, num_steps: int) -> Tensor:
        """int64 [num]: numbers of starts among the `num_steps` last ones of each environment, sorted.

        To be called after `count`.
        """
        recent = self._counts.clamp(max=num_steps)
        draws = self.draw(num, int(recent.sum()))
        env_ids = torch.searchsorted(recent.cumsum(0), draws, right=True)
        skipped = (self._counts - recent).cumsum(0)
        return draws + skipped[env_ids]

    def sample(self, num: int, total: int, length: int, num_recent: int, recent_steps: int) -> tuple[Tensor, Tensor]:
        """Environment ids and positions, int64 [num], of drawn starts.

        Args:
            num: how many to draw.
            total: what `count` returned.
            length: steps per sequence.
            num_recent: how many of them to draw from recent starts.
            recent_steps: how many starts per environment are recent.
        """
        if num_recent == 0:
            return self.locate(self.draw(num, total), length)
        draws = self.draw_recent(num_recent, recent_steps)
        if num > num_recent:
            draws = _sort(torch.cat([draws, self.draw(num - num_recent, total)]))
        return self.locate(draws, length)

    def locate(self, draws: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Environment ids and positions, int64 [num], of sorted draws; to be called after `count`."""
        if self._loops is None:
            ends = self._counts.cumsum(0)
            env_ids = torch.searchsorted(ends, draws, right=True)
            first = self._pos[env_ids] - length + 1 - self._counts[env_ids]
            return env_ids, first + draws - (ends - self._counts)[env_ids]
        num = draws.shape[0]
        env_ids = torch.from_numpy(np.empty(num, np.int64))
        positions = torch.from_numpy(np.empty(num, np.int64))
        self._loops.locate_starts(
            draws.data_ptr(),
            num,
            self._num_envs,
            self._counts_at,
            self._ring_at[1],
            length,
            env_ids.data_ptr(),
            positions.data_ptr(),
        )
        return env_ids, positions


def _sort(numbers: Tensor) -> Tensor:
    if numbers.is_cpu:
        return torch.from_numpy(np.sort(numbers.numpy()))
    return numbers.sort().values


def recent_share(num: int, ratio: float, num_steps: int, average_starts: float) -> int:
    """How many of `num` draws to take from recent data.

    Args:
        num: size of the batch.
        ratio: wanted share of recent data.
        num_steps: starts per environment that are recent.
        average_starts: starts per environment.

    Returns:
        0 if drawing from all data gives that share anyway.
    """
    if ratio <= 0 or average_starts * ratio <= num_steps:
        return 0
    return math.ceil(num * ratio)
