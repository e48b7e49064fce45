"""Compiled loops of the sum tree.

The tree is an array of levels; each node of a level is the sum of a block of 16 nodes of the level below, one cache
line of float32. Blocks are summed by halves (8 + 8, 4 + 4, ...), the order that the torch path follows too, so both
give the same bits.

Writing a leaf notes its index in a list of *pending* leaves (its length first, or -1 for "all", then the indices). The
nodes above them are recomputed by the first loop that needs them, so that several writes share the work.
"""

# Numba infers the types of these functions from the addresses and numbers that they are called with.
# mypy: ignore-errors

import numpy as np

from rein.replay.kernels.limits import MAX_PENDING
from rein.replay.kernels.memory import f32, f64, i64, inline, jit, prefetch

__all__ = [
    "find",
    "find_float32",
    "find_float64",
    "note_pending",
    "set_leaf",
    "settle",
    "settle_float32",
    "settle_float64",
    "update_float32",
    "update_float64",
]


@inline
def _block_sum(values, start):
    a0 = values[start] + values[start + 8]
    a1 = values[start + 1] + values[start + 9]
    a2 = values[start + 2] + values[start + 10]
    a3 = values[start + 3] + values[start + 11]
    a4 = values[start + 4] + values[start + 12]
    a5 = values[start + 5] + values[start + 13]
    a6 = values[start + 6] + values[start + 14]
    a7 = values[start + 7] + values[start + 15]
    return ((a0 + a4) + (a2 + a6)) + ((a1 + a5) + (a3 + a7))


@inline
def set_leaf(values, index, value, nonzeros, largest, holders):
    """Writes one leaf; returns the new count of non-zeros, maximum, and count of leaves that hold it."""
    old = values[index]
    values[index] = value
    nonzeros += np.float64(value != 0) - np.float64(old != 0)
    if old == largest:
        holders -= 1.0
    if value == largest:
        holders += 1.0
    elif value > largest:
        largest = np.float64(value)
        holders = 1.0
    return nonzeros, largest, holders


@inline
def propagate(values, levels, num_levels, indices, count):
    """Recomputes every node above the leaves `indices` from its children, level by level.

    Neighbours in `indices` with one parent share the work, so sorted indices are cheapest.
    """
    shift = 0
    for level in range(1, num_levels):
        shift += 4
        below, here = levels[level - 1], levels[level]
        last = -1
        for index in range(count):
            node = indices[index] >> shift
            if node != last:
                last = node
                values[here + node] = _block_sum(values, below + (node << 4))


@inline
def note_pending(pending, leaves, count):
    """Notes leaves whose parents have to be recomputed; after too many, that all have to be."""
    start = pending[0] + 1
    if start <= 0 or start + count > MAX_PENDING + 1:
        pending[0] = -1
        return
    for index in range(count):
        pending[start + index] = leaves[index]
    pending[0] += count


@inline
def settle(values, levels, num_levels, pending):
    """Brings all nodes up to date."""
    if pending[0] > 0:
        propagate(values, levels, num_levels, pending[1:], pending[0])
    elif pending[0] < 0:
        for level in range(1, num_levels):
            below, here = levels[level - 1], levels[level]
            for node in range((here - below) >> 4):
                values[here + node] = _block_sum(values, below + (node << 4))
    pending[0] = 0


@inline
def _update(values, stats, pending, indices, new, count):
    nonzeros, largest, holders = stats[0], stats[1], stats[2]
    for index in range(count):
        nonzeros, largest, holders = set_leaf(values, indices[index], new[index], nonzeros, largest, holders)
    stats[0], stats[1], stats[2] = nonzeros, largest, holders
    note_pending(pending, indices, count)


@jit
def update_float32(tree, size, levels, num_levels, stats, pending, indices, new, count):
    """Sets leaves of a float32 tree; of equal indices the last one counts."""
    where = i64(indices, count)
    for index in range(count):
        prefetch(tree + where[index] * 4)
    waiting = i64(pending, MAX_PENDING + 1)
    _update(f32(tree, size), f64(stats, 3), waiting, where, f32(new, count), count)


@jit
def update_float64(tree, size, levels, num_levels, stats, pending, indices, new, count):
    """Sets leaves of a float64 tree; of equal indices the last one counts."""
    where = i64(indices, count)
    waiting = i64(pending, MAX_PENDING + 1)
    _update(f64(tree, size), f64(stats, 3), waiting, where, f64(new, count), count)


@jit
def settle_float32(tree, size, levels, num_levels, stats, pending):
    """Brings all nodes of a float32 tree up to date."""
    settle(f32(tree, size), i64(levels, num_levels), num_levels, i64(pending, MAX_PENDING + 1))


@jit
def settle_float64(tree, size, levels, num_levels, stats, pending):
    """Brings all nodes of a float64 tree up to date."""
    settle(f64(tree, size), i64(levels, num_levels), num_levels, i64(pending, MAX_PENDING + 1))


@inline
def _child(values, start, threshold):
    """Which of 16 children a threshold falls into, and what is left of the threshold there.

    First the group of four, then the child in it. Where rounding leads to a child that is zero, the last one before it
    that is not, with an infinite rest so that the descent stays at the right edge.
    """
    first = (np.float64(values[start]) + np.float64(values[start + 1])) + (
        np.float64(values[start + 2]) + np.float64(values[start + 3])
    )
    second = (np.float64(values[start + 4]) + np.float64(values[start + 5])) + (
        np.float64(values[start + 6]) + np.float64(values[start + 7])
    )
    third = (np.float64(values[start + 8]) + np.float64(values[start + 9])) + (
        np.float64(values[start + 10]) + np.float64(values[start + 11])
    )
    two = first + second
    three = two + third
    before = 0.0
    before = first if first <= threshold else before
    before = two if two <= threshold else before
    before = three if three <= threshold else before
    group = np.int64(first <= threshold) + np.int64(two <= threshold) + np.int64(three <= threshold)
    rest = threshold - before
    start_of_group = start + 4 * group
    one = np.float64(values[start_of_group])
    two = one + np.float64(values[start_of_group + 1])
    three = two + np.float64(values[start_of_group + 2])
    before = 0.0
    before = one if one <= rest else before
    before = two if two <= rest else before
    before = three if three <= rest else before
    child = 4 * group + (np.int64(one <= rest) + np.int64(two <= rest) + np.int64(three <= rest))
    rest = rest - before
    if values[start + child] == 0:
        rest = np.inf
        while child > 0 and values[start + child] == 0:
            child -= 1
    return child, rest


@inline
def find(values, levels, num_levels, rest, found, count):
    """Descends for all thresholds at once, one level at a time, so that their cache misses overlap."""
    for index in range(count):
        found[index] = 0
    for level in range(num_levels - 2, -1, -1):
        base = levels[level]
        for index in range(count):
            child, left = _child(values, base + (found[index] << 4), rest[index])
            rest[index] = left
            found[index] = (found[index] << 4) + child


@jit
def find_float32(tree, size, levels, num_levels, stats, pending, thresholds, found, count):
    """Leaf of a settled tree in which each threshold falls; `thresholds` (float64) is overwritten."""
    rest, out = f64(thresholds, count), i64(found, count)
    find(f32(tree, size), i64(levels, num_levels), num_levels, rest, out, count)


@jit
def find_float64(tree, size, levels, num_levels, stats, pending, thresholds, found, count):
    """Leaf of a settled tree in which each threshold falls; `thresholds` (float64) is overwritten."""
    rest, out = f64(thresholds, count), i64(found, count)
    find(f64(tree, size), i64(levels, num_levels), num_levels, rest, out, count)
