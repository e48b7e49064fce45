"""Compiled loops of the sum tree.

The tree is an array of levels; each node of a level is the sum of a block of 16 nodes of the level below, one cache
line of float32. Blocks are summed by halves (8 + 8, 4 + 4, ...), the order that the torch path follows too, so both
give the same bits.
"""

# Numba infers the types of these functions from the addresses and numbers that they are called with.
# mypy: ignore-errors

import numpy as np

from rein.replay.kernels.memory import f32, f64, i64, inline, jit, prefetch

__all__ = ["find_float32", "find_float64", "update_float32", "update_float64"]


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
def set_leaf(values, stats, index, value):
    """Writes one leaf and keeps the count of non-zeros, the maximum and the count of leaves that hold it."""
    old = values[index]
    if old != 0:
        stats[0] -= 1
    if value != 0:
        stats[0] += 1
    if old == stats[1]:
        stats[2] -= 1
    if value == stats[1]:
        stats[2] += 1
    elif value > stats[1]:
        stats[1] = value
        stats[2] = 1
    values[index] = value


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
def _update(values, levels, num_levels, indices, new, count, stats):
    for index in range(count):
        set_leaf(values, stats, indices[index], new[index])
    propagate(values, levels, num_levels, indices, count)


@jit
def update_float32(tree, size, levels, num_levels, indices, new, count, stats):
    """Sets leaves of a float32 tree; of equal indices the last one counts."""
    values, where = f32(tree, size), i64(indices, count)
    for index in range(count):
        prefetch(tree + where[index] * 4)
    _update(values, i64(levels, num_levels), num_levels, where, f32(new, count), count, f64(stats, 3))


@jit
def update_float64(tree, size, levels, num_levels, indices, new, count, stats):
    """Sets leaves of a float64 tree; of equal indices the last one counts."""
    values = f64(tree, size)
    _update(
        values,
        i64(levels, num_levels),
        num_levels,
        i64(indices, count),
        f64(new, count),
        count,
        f64(stats, 3),
    )


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
def find_float32(tree, size, levels, num_levels, thresholds, found, count):
    """Leaf in which each threshold falls; `thresholds` (float64) is overwritten."""
    find(
        f32(tree, size),
        i64(levels, num_levels),
        num_levels,
        f64(thresholds, count),
        i64(found, count),
        count,
    )


@jit
def find_float64(tree, size, levels, num_levels, thresholds, found, count):
    """Leaf in which each threshold falls; `thresholds` (float64) is overwritten."""
    find(
        f64(tree, size),
        i64(levels, num_levels),
        num_levels,
        f64(thresholds, count),
        i64(found, count),
        count,
    )
