"""Compiled loops that choose where sampled sequences start, and that keep priorities."""

# Numba infers the types of these functions from the addresses and numbers that they are called with.
# mypy: ignore-errors

import numpy as np

from rein.replay.kernels.limits import MAX_PENDING
from rein.replay.kernels.memory import f32, f64, i64, inline, jit, prefetch
from rein.replay.kernels.rows import OK, rows_of, turn_of
from rein.replay.kernels.trees import find, note_pending, set_leaf, settle

__all__ = [
    "BAD_PRIORITY",
    "BAD_STEP",
    "count_starts",
    "draw_distinct",
    "locate_starts",
    "prioritize_new",
    "sample_leaves",
    "update_priorities",
]

BAD_STEP, BAD_PRIORITY = 0, 1


@jit
def count_starts(num_envs, current_pos, current_size, ignored, length, counts):
    """Number of positions per environment at which a sequence may start; returns their sum."""
    sizes, out = i64(current_size, num_envs), i64(counts, num_envs)
    total = 0
    for env_id in range(num_envs):
        out[env_id] = max(0, sizes[env_id] - ignored - length + 1)
        total += out[env_id]
    return total


@jit
def draw_distinct(uniform, count, total, draws):
    """Sorted distinct numbers below `total` from `count` uniform ones in [0, 1), every set equally likely.

    Floyd's method: the i-th number is drawn from the first ``total - count + i + 1``; if it is taken, the last of them,
    which cannot be, takes its place.
    """
    numbers, out = f64(uniform, count), i64(draws, count)
    size = 16
    while size < 8 * count:
        size *= 2
    taken = np.full(size, -1, np.int64)
    for index in range(count):
        last = total - count + index
        number = min(np.int64(numbers[index] * (last + 1)), last)
        slot = number & (size - 1)
        while taken[slot] != -1 and taken[slot] != number:
            slot = (slot + 1) & (size - 1)
        if taken[slot] == number:
            number = last
            slot = number & (size - 1)
            while taken[slot] != -1:
                slot = (slot + 1) & (size - 1)
        taken[slot] = number
        out[index] = number
    _sort_spread(out, count, total)


@inline
def _sort_spread(numbers, count, total):
    """Sorts numbers that are spread evenly below `total`: into four times as many buckets, then by insertion."""
    num_buckets = 4 * count
    starts = np.zeros(num_buckets + 1, np.int64)
    copy = np.empty(count, np.int64)
    scale = num_buckets / total
    for index in range(count):
        copy[index] = numbers[index]
        starts[min(np.int64(copy[index] * scale), num_buckets - 1) + 1] += 1
    for bucket in range(num_buckets):
        starts[bucket + 1] += starts[bucket]
    for index in range(count):
        bucket = min(np.int64(copy[index] * scale), num_buckets - 1)
        place = starts[bucket]
        starts[bucket] += 1
        numbers[place] = copy[index]
    for index in range(1, count):
        number = numbers[index]
        place = index
        while place > 0 and numbers[place - 1] > number:
            numbers[place] = numbers[place - 1]
            place -= 1
        numbers[place] = number


@jit
def locate_starts(draws, count, num_envs, counts, current_pos, length, env_ids, positions):
    """Environment and position of sorted numbers among all starts."""
    numbers, sizes, ends = i64(draws, count), i64(counts, num_envs), i64(current_pos, num_envs)
    ids, out = i64(env_ids, count), i64(positions, count)
    env_id, before = 0, 0
    for index in range(count):
        number = numbers[index]
        while number - before >= sizes[env_id]:
            before += sizes[env_id]
            env_id += 1
        ids[index] = env_id
        out[index] = ends[env_id] - length + 1 - sizes[env_id] + number - before


@jit
def sample_leaves(tree, size, levels, num_levels, stats, pending, uniform, count, is_stratified, found):
    """Leaves drawn in proportion to their values by `uniform` numbers in [0, 1), which are overwritten.

    Returns the sum of all values; if it is 0, nothing is drawn.
    """
    values, where, numbers = f32(tree, size), i64(levels, num_levels), f64(uniform, count)
    settle(values, where, num_levels, i64(pending, MAX_PENDING + 1))
    total = float(values[where[num_levels - 1]])
    if total <= 0:
        return total
    for index in range(count):
        if is_stratified:
            numbers[index] = (index + numbers[index]) / count * total
        else:
            numbers[index] = numbers[index] * total
    find(values, where, num_levels, numbers, i64(found, count), count)
    return total


@jit
def locate_leaves(
    found,
    count,
    max_length,
    num_envs,
    current_pos,
    tree,
    size,
    levels,
    num_levels,
    stats,
    pending,
    env_ids,
    positions,
    weights,
):
    """Environment, position and importance weight of leaves."""
    leaves, ends, values = i64(found, count), i64(current_pos, num_envs), f32(tree, size)
    ids, out, ratios = i64(env_ids, count), i64(positions, count), f32(weights, count)
    heights = i64(levels, num_levels)
    settle(values, heights, num_levels, i64(pending, MAX_PENDING + 1))
    scale = f64(stats, 3)[0] / float(values[heights[num_levels - 1]])
    before = 0
    for index in range(count):
        leaf = leaves[index]
        before = turn_of(leaf, before, max_length)
        env_id = before // max_length
        newest = ends[env_id] - 1
        ids[index] = env_id
        out[index] = newest - (newest - (leaf - before)) % max_length
        ratios[index] = np.float32(float(values[leaf]) * scale)


@inline
def _is_start(position, end, size, ignored, length):
    return end - size + ignored <= position <= end - length


@jit
def update_priorities(
    env_ids,
    positions,
    priorities,
    count,
    max_length,
    num_envs,
    current_pos,
    current_size,
    ignored,
    length,
    tree,
    size,
    levels,
    num_levels,
    stats,
    pending,
):
    """Sets priorities of steps that may still start a sequence.

    Returns OK, or twice the index of the first bad element plus what is bad; then nothing is changed.
    """
    ids, steps, new = i64(env_ids, count), i64(positions, count), f32(priorities, count)
    ends, sizes = i64(current_pos, num_envs), i64(current_size, num_envs)
    leaves = np.empty(count, np.int64)
    kept = 0
    turn = 0
    for index in range(count):
        env_id, position = ids[index], steps[index]
        if env_id < 0 or env_id >= num_envs or position < 0 or position >= ends[env_id]:
            return 2 * index + BAD_STEP
        if not 0 <= new[index] < np.inf:
            return 2 * index + BAD_PRIORITY
        turn = turn_of(position, turn, max_length)
        leaves[index] = -1
        if _is_start(position, ends[env_id], sizes[env_id], ignored, length):
            leaves[index] = env_id * max_length + position - turn
            prefetch(tree + leaves[index] * 4)
    values, counters = f32(tree, size), f64(stats, 3)
    nonzeros, largest, holders = counters[0], counters[1], counters[2]
    for index in range(count):
        leaf = leaves[index]
        if leaf >= 0:
            nonzeros, largest, holders = set_leaf(values, leaf, new[index], nonzeros, largest, holders)
            leaves[kept] = leaf
            kept += 1
    counters[0], counters[1], counters[2] = nonzeros, largest, holders
    note_pending(i64(pending, MAX_PENDING + 1), leaves, kept)
    return OK


@jit
def prioritize_new(
    env_ids,
    count,
    max_length,
    num_envs,
    current_pos,
    current_size,
    ignored,
    length,
    initial,
    tree,
    size,
    levels,
    num_levels,
    stats,
    pending,
):
    """Keeps the priorities after one step per environment was added.

    The newest step cannot start a sequence yet unless `length` is 1, the one `length - 1` before it now can, and the
    last of the ignored earliest steps no longer can.
    """
    ids = i64(env_ids, count)
    ends, sizes = i64(current_pos, num_envs), i64(current_size, num_envs)
    values, counters = f32(tree, size), f64(stats, 3)
    leaves = np.empty(3 * count, np.int64)
    nonzeros, largest, holders = counters[0], counters[1], counters[2]
    kept = 0
    for index in range(count):
        env_id = ids[index]
        end, stored = ends[env_id], sizes[env_id]
        leaf = rows_of(env_id, end - 1, max_length)
        can_start = _is_start(end - length, end, stored, ignored, length)
        if ignored > 0 and stored >= ignored:
            old = rows_of(env_id, end - stored + ignored - 1, max_length)
            nonzeros, largest, holders = set_leaf(values, old, np.float32(0), nonzeros, largest, holders)
            leaves[kept] = old
            kept += 1
        if length > 1 or not can_start:
            nonzeros, largest, holders = set_leaf(values, leaf, np.float32(0), nonzeros, largest, holders)
            leaves[kept] = leaf
            kept += 1
        if can_start:
            leaf = rows_of(env_id, end - length, max_length)
            nonzeros, largest, holders = set_leaf(values, leaf, np.float32(initial), nonzeros, largest, holders)
            leaves[kept] = leaf
            kept += 1
    counters[0], counters[1], counters[2] = nonzeros, largest, holders
    note_pending(i64(pending, MAX_PENDING + 1), leaves, kept)
