"""Compiled copies between batches of fields and rows of storage.

A *field table* is int64 [F, 3]: address of the field in row 0, bytes from row to row, bytes of the field. The batches
are given by a list of F addresses. Rows are found by environment and ever-growing position.
"""

# Numba infers the types of these functions from the addresses and numbers that they are called with.
# mypy: ignore-errors

import numpy as np

from rein.replay.kernels.memory import copy_bytes, i64, inline, jit, prefetch

__all__ = ["OK", "find_bad_env", "find_invalid", "read_rows", "rows_of", "turn_of", "write_rows"]

OK = -1
"""What a checking loop returns if nothing is wrong; else it returns the index of the first bad element."""

_CHUNK = 64
"""Rows fetched ahead before their fields are copied: few enough to stay in the first-level cache."""


@inline
def rows_of(env_id, position, max_length):
    """Row of storage that holds `position` of an environment."""
    return env_id * max_length + position % max_length


@inline
def turn_of(position, turn, max_length):
    """First position of the turn around the ring that `position` is in; a guess saves the division."""
    if position < turn or position >= turn + max_length:
        turn = position // max_length * max_length
    return turn


@jit
def find_invalid(env_ids, positions, count, num_envs, current_pos, current_size):
    """Index of the first pair that names no stored step, or OK."""
    ids, steps = i64(env_ids, count), i64(positions, count)
    ends, sizes = i64(current_pos, num_envs), i64(current_size, num_envs)
    for index in range(count):
        env_id = ids[index]
        if env_id < 0 or env_id >= num_envs:
            return index
        end = ends[env_id]
        if steps[index] >= end or steps[index] < end - sizes[env_id]:
            return index
    return OK


@jit
def find_bad_env(env_ids, count, num_envs, marks):
    """Index of the first environment id that does not exist or comes twice, or OK; `marks` is scratch."""
    ids, seen = i64(env_ids, count), i64(marks, num_envs)
    bad = OK
    for index in range(count):
        env_id = ids[index]
        if env_id < 0 or env_id >= num_envs or seen[env_id] != 0:
            bad = index
            break
        seen[env_id] = 1
    for index in range(count):
        if 0 <= ids[index] < num_envs:
            seen[ids[index]] = 0
    return bad


@jit
def read_rows(fields, batches, num_fields, env_ids, positions, count, length, max_length, ahead, stride, size):
    """Copies `length` steps from each of `count` positions into batches [count, length, ...].

    The `size` bytes at `ahead` in row 0, `stride` bytes from row to row, are what is fetched ahead of the copies.
    """
    table, targets = i64(fields, (num_fields, 3)), i64(batches, num_fields)
    ids, steps = i64(env_ids, count), i64(positions, count)
    total = count * length
    rows = np.empty(total, np.int64)
    turn = 0
    for index in range(count):
        turn = turn_of(steps[index], turn, max_length)
        slot = steps[index] - turn
        base = ids[index] * max_length
        for step in range(length):
            rows[index * length + step] = base + slot
            slot += 1
            if slot == max_length:
                slot = 0
    for low in range(0, total, _CHUNK):
        high = min(total, low + _CHUNK)
        if size > 0:
            for index in range(low, high):
                line = ahead + rows[index] * stride
                for offset in range(0, size + 63, 64):
                    prefetch(line + offset)
        for field in range(num_fields):
            _read_field(table[field], targets[field], rows, low, high)


@inline
def _read_field(field, batch, rows, low, high):
    source, stride, size = field[0], field[1], field[2]
    target = batch + low * size
    if size == 4:
        for index in range(low, high):
            copy_bytes(target, source + rows[index] * stride, 4)
            target += 4
    elif size == 8:
        for index in range(low, high):
            copy_bytes(target, source + rows[index] * stride, 8)
            target += 8
    else:
        for index in range(low, high):
            copy_bytes(target, source + rows[index] * stride, size)
            target += size


@jit
def write_rows(ring, batches, num_fields, env_ids, count):
    """Copies one step per environment from batches [count, ...] to the next position of each, and advances it.

    `ring` is the address of those of the field table, of the positions and of the sizes, then the numbers of steps and
    of environments: what never changes costs no argument.
    """
    fixed = i64(ring, 5)
    max_length, num_envs = fixed[3], fixed[4]
    table, sources = i64(fixed[0], (num_fields, 3)), i64(batches, num_fields)
    ids = i64(env_ids, count)
    ends, sizes = i64(fixed[1], num_envs), i64(fixed[2], num_envs)
    for index in range(count):
        env_id = ids[index]
        row = rows_of(env_id, ends[env_id], max_length)
        for field in range(num_fields):
            size = table[field, 2]
            source = sources[field] + index * size
            copy_bytes(table[field, 0] + row * table[field, 1], source, size)
        ends[env_id] += 1
        sizes[env_id] = min(sizes[env_id] + 1, max_length)
