"""Trees over a list of numbers that keep its sum, minimum or maximum while single numbers change.

Every node covers 16 nodes of the level below, one cache line, so a tree over a million numbers is five levels deep and
costs seven percent more memory than the numbers. Nodes are always recomputed from their children, never adjusted by a
difference, so rounding errors cannot build up.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.replay.kernels import MAX_PENDING, compiled

__all__ = ["MaxSegmentTree", "MinSegmentTree", "SegmentTree", "SumSegmentTree"]

FANOUT = 16

_COMBINE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "min": torch.minimum,
    "max": torch.maximum,
}
_NAMES = {
    torch.add: "add",
    torch.min: "min",
    torch.minimum: "min",
    torch.max: "max",
    torch.maximum: "max",
}


class SegmentTree(nn.Module):
    """A list of `capacity` numbers, all zero at first, with a summary of all of them at hand.

    ``tree[indices]`` reads, ``tree[indices] = values`` writes; of equal indices in one write, the last counts.
    """

    values: Tensor

    def __init__(
        self,
        capacity: int,
        op: Callable[..., Any],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        name: str = "SegmentTree",
    ) -> None:
        """A tree of zeros.

        Args:
            capacity: number of leaves.
            op: what the tree summarizes by: `torch.add`, `torch.min` or `torch.max`.
            dtype: of the numbers.
            device: where the tree lives.
            name: for messages.
        """
        super().__init__()
        if capacity < 1:
            raise ValueError(f"capacity of {name} is {capacity}: give at least 1")
        if op not in _NAMES:
            raise ValueError(f"op of {name} is {op!r}: give torch.add, torch.min or torch.max")
        self._capacity = int(capacity)
        self._name = name
        self._op = _NAMES[op]
        self._levels = _level_offsets(self._capacity)
        values = torch.zeros(self._levels[-1] + FANOUT, dtype=dtype, device=device)
        self.register_buffer("values", values)
        # Number of non-zeros, maximum, and how many leaves hold it (0: unknown, to be looked up).
        self._counters = torch.tensor([0.0, 0.0, float(capacity)], dtype=torch.float64, device="cpu")
        # Leaves whose parents are not up to date: how many, and which.
        self._pending = torch.zeros(MAX_PENDING + 1, dtype=torch.int64, device="cpu")
        self._fill_padding()
        self._bind()

    @property
    def capacity(self) -> int:
        """Number of leaves."""
        return self._capacity

    @property
    def name(self) -> str:
        """Name of the tree."""
        return self._name

    @property
    def leaves(self) -> Tensor:
        """[capacity] view of the numbers; to change them, assign to ``tree[indices]``."""
        return self.values[: self._capacity]

    def summary(self) -> Tensor:
        """Scalar: the sum, minimum or maximum of all numbers."""
        self.settle()
        return self.values[self._levels[-1]].clone()

    def __len__(self) -> int:
        return self._capacity

    def __getitem__(self, indices: Tensor) -> Tensor:
        indices = self._check_indices(indices)
        return self.values.index_select(0, indices.reshape(-1)).reshape(indices.shape)

    def __setitem__(self, indices: Tensor, values: Tensor | float) -> None:
        indices = self._check_indices(indices)
        new = torch.as_tensor(values, dtype=self.values.dtype, device=self.values.device)
        if new.shape != indices.shape:
            new = new.expand(indices.shape)
        self.set(indices.reshape(-1), new.detach().reshape(-1).contiguous())

    @torch.no_grad()
    def set(self, indices: Tensor, values: Tensor) -> None:
        """Writes leaves without checks: int64 `indices` [n] in range, `values` [n] of the tree's dtype."""
        indices, values = _last_of_equals(indices, values)
        self.values[indices] = values
        nodes = indices
        for below, here in zip(self._levels[:-1], self._levels[1:], strict=True):
            nodes = torch.unique_consecutive(nodes // FANOUT)
            blocks = self.values[below + nodes[:, None] * FANOUT + _offsets(nodes.device)]
            self.values[here + nodes] = self._fold(blocks)

    def settle(self) -> None:
        """Brings nodes up to date, for trees that put that off."""

    def clear(self) -> None:
        """Sets all numbers to zero."""
        self.values.zero_()
        self._fill_padding()

    def _fold(self, blocks: Tensor) -> Tensor:
        """[n, 16] -> [n], by halves: the order of the compiled loop."""
        combine = _COMBINE[self._op]
        for half in (8, 4, 2, 1):
            blocks = combine(blocks[:, :half], blocks[:, half:])
        return blocks[:, 0]

    def _fill_padding(self) -> None:
        """Gives the unused ends of the levels a value that the summary ignores."""
        if self._op == "add":
            return
        dtype = self.values.dtype
        limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
        ignored = limits.max if self._op == "min" else limits.min
        if dtype.is_floating_point:
            ignored = float("inf") if self._op == "min" else float("-inf")
        count = self._capacity
        for start, end in zip(self._levels, [*self._levels[1:], len(self.values)], strict=True):
            self.values[start + count : end] = ignored
            count = -(-count // FANOUT)

    def _check_indices(self, indices: Tensor) -> Tensor:
        indices = torch.as_tensor(indices, device=self.values.device)
        if indices.dtype != torch.int64:
            if indices.dtype.is_floating_point or indices.dtype == torch.bool:
                raise TypeError(f"indices of {self._name} are {indices.dtype}: give int64")
            indices = indices.to(torch.int64)
        if indices.numel():
            low, high = (int(bound) for bound in torch.aminmax(indices))
            if low < 0 or high >= self._capacity:
                raise ValueError(f"indices of {self._name} are in [{low}, {high}]: it has {self._capacity} leaves")
        return indices.contiguous()

    def _bind(self) -> None:
        """Looks up what depends on where `values` lies; called again when it moved."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        result = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._bind()
        return result


@configurable
class MinSegmentTree(SegmentTree):
    """A list of numbers with their minimum at hand; numbers never set are zero and count."""

    def __init__(
        self,
        capacity: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        name: str = "MinSegmentTree",
    ) -> None:
        """A tree of zeros; see `SegmentTree`."""
        super().__init__(capacity, torch.min, dtype, device, name)


@configurable
class MaxSegmentTree(SegmentTree):
    """A list of numbers with their maximum at hand; numbers never set are zero and count."""

    def __init__(
        self,
        capacity: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        name: str = "MaxSegmentTree",
    ) -> None:
        """A tree of zeros; see `SegmentTree`."""
        super().__init__(capacity, torch.max, dtype, device, name)


@configurable
class SumSegmentTree(SegmentTree):
    """A list of non-negative numbers with their sum at hand, from which one can draw in proportion to them."""

    address: tuple[int, ...]
    """What compiled loops take: address and number of nodes, the same of levels, addresses of counters and pending."""

    def __init__(
        self,
        capacity: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        name: str = "SumSegmentTree",
    ) -> None:
        """A tree of zeros; see `SegmentTree`."""
        super().__init__(capacity, torch.add, dtype, device, name)

    @property
    def nnz(self) -> int:
        """The number of non-zeros."""
        return int(self._stats[0])

    def max(self) -> float:
        """The largest number.

        It is kept up to date by the writes; the leaves are searched only after every one that held the maximum was
        overwritten.
        """
        if self._stats[2] <= 0:
            self._stats[1] = largest = float(self.leaves.max())
            self._stats[2] = int((self.leaves == largest).sum())
        return float(self._stats[1])

    @torch.no_grad()
    def set(self, indices: Tensor, values: Tensor) -> None:
        """Writes leaves without checks: int64 `indices` [n] in range, `values` [n] of the tree's dtype."""
        if self._update is not None:
            at = (indices.data_ptr(), values.data_ptr(), len(indices))
            self._update(*self.address, *at)
            return
        indices, values = _last_of_equals(indices, values)
        old = self.values[indices]
        self._stats[0] += int((values != 0).sum()) - int((old != 0).sum())
        if len(values):
            self._stats[2] -= int((old == self._stats[1]).sum())
            if (largest := float(values.max())) > self._stats[1]:
                self._stats[1:] = largest, 0
            self._stats[2] += int((values == self._stats[1]).sum())
        super().set(indices, values)

    def find_sum_bound(self, thresholds: Tensor) -> Tensor:
        """Leaves into which thresholds fall when the numbers are laid end to end.

        Args:
            thresholds: any shape, each at least 0 and at most `summary()`.

        Returns:
            int64, shaped like `thresholds`: the smallest index such that ``threshold < values[0] + ... +
            values[index]``, or the last non-zero leaf where rounding leaves none. Never a leaf that is zero.

        Raises:
            ValueError: if a threshold is negative, NaN or greater than `summary()`, or if all leaves are zero.
        """
        thresholds = torch.as_tensor(thresholds, device=self.values.device)
        total = float(self.summary())
        if total <= 0:
            raise ValueError(f"{self._name} holds only zeros: there is nothing to find")
        if thresholds.numel():
            low, high = (float(bound) for bound in torch.aminmax(thresholds))
            if not (low >= 0 and high <= total):
                raise ValueError(f"thresholds are in [{low}, {high}]: the sum of {self._name} is {total}")
        rest = torch.empty(thresholds.numel(), dtype=torch.float64, device=self.values.device)
        rest.copy_(thresholds.detach().reshape(-1))
        rest[rest >= total] = torch.inf  # the sum may be rounded down: what equals it is behind all the numbers
        return self.find(rest).reshape(thresholds.shape)

    @torch.no_grad()
    def find(self, thresholds: Tensor) -> Tensor:
        """`find_sum_bound` without checks of float64 `thresholds` [n], which it overwrites."""
        self.settle()
        if self._find is not None:
            found = torch.empty(len(thresholds), dtype=torch.int64, device="cpu")
            self._find(*self.address, thresholds.data_ptr(), found.data_ptr(), len(thresholds))
            return found
        found = torch.zeros(len(thresholds), dtype=torch.int64, device=self.values.device)
        for level in reversed(self._levels[:-1]):
            blocks = self.values[level + found[:, None] * FANOUT + _offsets(found.device)]
            child, thresholds = _child(blocks, thresholds)
            found = found * FANOUT + child
        return found

    def clear(self) -> None:
        """Sets all numbers to zero."""
        super().clear()
        self._pending[0] = 0
        self._stats[:] = 0.0, 0.0, self._capacity

    def share_memory(self) -> Self:
        """Moves the tree to memory that other processes see."""
        self.settle()
        self._pending.share_memory_()  # type: ignore[no-untyped-call]
        self._counters.share_memory_()  # type: ignore[no-untyped-call]
        self._bind()
        return super().share_memory()

    def recount(self) -> None:
        """Counts non-zeros and looks up the maximum again after `values` was changed from outside."""
        self._stats[:] = int((self.leaves != 0).sum()), 0.0, 0.0

    def _bind(self) -> None:
        loops = compiled(self.values.device)
        kind = {torch.float32: "float32", torch.float64: "float64"}.get(self.values.dtype)
        has_loops = loops is not None and kind is not None
        self._update = getattr(loops, f"update_{kind}") if has_loops else None
        self._settle = getattr(loops, f"settle_{kind}") if has_loops else None
        self._find = getattr(loops, f"find_{kind}") if has_loops else None
        self._stats = self._counters.numpy()
        self._level_array = np.array(self._levels, dtype=np.int64)
        self.address = (
            self.values.data_ptr(),
            len(self.values),
            self._level_array.ctypes.data,
            len(self._levels),
            self._counters.data_ptr(),
            self._pending.data_ptr(),
        )

    def settle(self) -> None:
        """Brings the nodes above leaves that were written up to date; readers call it themselves."""
        if self._settle is not None:
            self._settle(*self.address)

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.settle()
        super()._save_to_state_dict(*args, **kwargs)  # type: ignore[no-untyped-call]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self.settle()
        return super()._apply(fn, recurse)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._pending[0] = 0
        self.recount()

    def __getstate__(self) -> dict[str, Any]:
        made_by_bind = ("_update", "_settle", "_find", "_stats", "_level_array", "address")
        return {name: value for name, value in self.__dict__.items() if name not in made_by_bind}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._bind()


def _level_offsets(capacity: int) -> list[int]:
    """Where each level begins in the array of nodes: leaves first, the root last."""
    offsets, start, count = [], 0, capacity
    while True:
        offsets.append(start)
        if count == 1 and len(offsets) > 1:
            return offsets
        blocks = -(-count // FANOUT)
        start += blocks * FANOUT
        count = blocks


def _offsets(device: torch.device) -> Tensor:
    return torch.arange(FANOUT, device=device)


def _last_of_equals(indices: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Sorted distinct indices, each with the last value given for it."""
    ordered, order = torch.sort(indices, stable=True)
    is_last = torch.ones_like(ordered, dtype=torch.bool)
    is_last[:-1] = ordered[1:] != ordered[:-1]
    return ordered[is_last], values[order[is_last]]


def _child(blocks: Tensor, threshold: Tensor) -> tuple[Tensor, Tensor]:
    """Which of 16 children each threshold falls into and the rest of it; the arithmetic of the compiled loop."""
    values = blocks.to(torch.float64)
    quads = values.reshape(-1, 4, 4)
    sums = (quads[..., 0] + quads[..., 1]) + (quads[..., 2] + quads[..., 3])
    group, rest = _first_above(sums, threshold)
    child, rest = _first_above(quads[torch.arange(len(group)), group], rest)
    child = child + 4 * group
    number = _offsets(blocks.device)
    usable = (values > 0) & (number <= child[:, None])
    chosen = torch.where(usable, number, 0).amax(dim=1)
    return chosen, torch.where(chosen == child, rest, torch.inf)


def _first_above(parts: Tensor, threshold: Tensor) -> tuple[Tensor, Tensor]:
    """Index of the first of four running sums above the threshold (the fourth without asking), and the rest."""
    one = parts[:, 0]
    two = one + parts[:, 1]
    three = two + parts[:, 2]
    sums = torch.stack([torch.zeros_like(one), one, two, three], dim=1)
    index = (sums[:, 1:] <= threshold[:, None]).sum(dim=1)
    return index, threshold - sums.gather(1, index[:, None])[:, 0]
