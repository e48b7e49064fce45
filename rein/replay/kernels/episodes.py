"""Compiled loops of the episode index; `rein.replay.episode_index` says what the numbers mean."""

# Numba infers the types of these functions from the addresses and numbers that they are called with.
# mypy: ignore-errors

from rein.replay.kernels.memory import f32, i32, i64, inline, jit
from rein.replay.kernels.rows import rows_of

__all__ = ["backfill_returns", "find_disc_0", "find_episode_begin", "find_episode_end", "index_steps"]

_FIRST, _LAST = 0, 2
_LONGEST = 2**31 - 1


@inline
def _close(env_id, end, earliest, max_length, opened, headless, distance, stride):
    """Notes that the open episode of an environment ends at `end`."""
    begin = opened[env_id]
    if begin < earliest:
        headless[env_id] = end
    else:
        length = min(end - begin, _LONGEST)
        i32(distance + rows_of(env_id, begin, max_length) * stride, 1)[0] = -length
    opened[env_id] = -1


@jit
def index_steps(
    step_types,
    discounts,
    env_ids,
    count,
    max_length,
    num_envs,
    current_pos,
    current_size,
    distance,
    stride,
    disc_0_distance,
    open_begin,
    headless_end,
    last_disc_0,
):
    """Indexes one new step per environment, before it is written; returns how many of them end an episode."""
    kinds, factors, ids = i32(step_types, count), f32(discounts, count), i64(env_ids, count)
    ends, sizes = i64(current_pos, num_envs), i64(current_size, num_envs)
    opened, headless, zeros = (
        i64(open_begin, num_envs),
        i64(headless_end, num_envs),
        i64(last_disc_0, num_envs),
    )
    finished = 0
    for index in range(count):
        env_id = ids[index]
        position = ends[env_id]
        earliest = position - sizes[env_id]
        row = rows_of(env_id, position, max_length)
        here = i32(distance + row * stride, 1)
        if sizes[env_id] == max_length:
            if here[0] <= 0 and earliest != opened[env_id]:
                headless[env_id] = earliest - here[0]
            earliest += 1
        if kinds[index] == _FIRST and opened[env_id] >= 0:
            _close(env_id, position - 1, earliest, max_length, opened, headless, distance, stride)
        if opened[env_id] < 0:
            opened[env_id] = position
        here[0] = min(position - opened[env_id], _LONGEST)
        if zeros[env_id] < 0 or factors[index] == 0:
            zeros[env_id] = position
        i32(disc_0_distance + row * stride, 1)[0] = min(position - zeros[env_id], _LONGEST)
        if kinds[index] == _LAST:
            finished += 1
            _close(env_id, position, earliest, max_length, opened, headless, distance, stride)
    return finished


@inline
def _begin(env_id, position, max_length, distance, stride):
    back = i32(distance + rows_of(env_id, position, max_length) * stride, 1)[0]
    return position - back if back > 0 else position


@jit
def find_episode_begin(env_ids, positions, count, max_length, distance, stride, begins):
    """First position of the episode of each step."""
    ids, steps, out = i64(env_ids, count), i64(positions, count), i64(begins, count)
    for index in range(count):
        out[index] = _begin(ids[index], steps[index], max_length, distance, stride)


@jit
def find_disc_0(env_ids, positions, count, max_length, disc_0_distance, stride, begins):
    """Last position up to each step whose discount was 0."""
    ids, steps, out = i64(env_ids, count), i64(positions, count), i64(begins, count)
    for index in range(count):
        row = rows_of(ids[index], steps[index], max_length)
        out[index] = steps[index] - i32(disc_0_distance + row * stride, 1)[0]


@jit
def find_episode_end(
    env_ids,
    positions,
    count,
    max_length,
    num_envs,
    current_pos,
    current_size,
    distance,
    stride,
    open_begin,
    headless_end,
    last,
):
    """Last position so far of the episode of each step."""
    ids, steps, out = i64(env_ids, count), i64(positions, count), i64(last, count)
    ends, sizes = i64(current_pos, num_envs), i64(current_size, num_envs)
    opened, headless = i64(open_begin, num_envs), i64(headless_end, num_envs)
    for index in range(count):
        env_id, position = ids[index], steps[index]
        if opened[env_id] >= 0 and position >= opened[env_id]:
            out[index] = ends[env_id] - 1
            continue
        begin = _begin(env_id, position, max_length, distance, stride)
        if begin < ends[env_id] - sizes[env_id]:
            out[index] = headless[env_id]
        else:
            row = rows_of(env_id, begin, max_length)
            out[index] = begin - i32(distance + row * stride, 1)[0]


@jit
def backfill_returns(
    discounts,
    env_ids,
    count,
    max_length,
    num_envs,
    current_pos,
    current_size,
    distance,
    stride,
    rewards,
    reward_stride,
    factors,
    factor_stride,
    returns,
    gamma,
    low,
    high,
):
    """Writes the discounted returns that end at the newest steps with a discount of 0, back to the last such step."""
    last_factors, ids = f32(discounts, count), i64(env_ids, count)
    ends, sizes = i64(current_pos, num_envs), i64(current_size, num_envs)
    for index in range(count):
        if last_factors[index] != 0:
            continue
        env_id = ids[index]
        position = ends[env_id] - 1
        begin = max(_begin(env_id, position, max_length, distance, stride), ends[env_id] - sizes[env_id])
        newest = position
        total = 0.0
        while position > begin:
            row = rows_of(env_id, position, max_length)
            factor = float(f32(factors + row * factor_stride, 1)[0])
            if factor == 0.0 and position != newest:
                break
            reward = min(max(float(f32(rewards + row * reward_stride, 1)[0]), low), high)
            total = reward + gamma * factor * total
            position -= 1
            f32(returns + rows_of(env_id, position, max_length) * stride, 1)[0] = total
