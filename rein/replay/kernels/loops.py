"""All compiled loops in one place; importing this module imports numba."""

from typing import Any

import numba

from rein.replay.kernels.episodes import (
    backfill_returns,
    find_disc_0,
    find_episode_begin,
    find_episode_end,
    index_steps,
)
from rein.replay.kernels.rows import OK, find_bad_env, find_invalid, read_rows, write_rows
from rein.replay.kernels.sampling import (
    BAD_PRIORITY,
    BAD_STEP,
    count_starts,
    draw_distinct,
    locate_leaves,
    locate_starts,
    prioritize_new,
    sample_leaves,
    update_priorities,
)
from rein.replay.kernels.trees import (
    find_float32,
    find_float64,
    settle_float32,
    settle_float64,
    update_float32,
    update_float64,
)

__all__ = [
    "BAD_PRIORITY",
    "BAD_STEP",
    "OK",
    "backfill_returns",
    "compile_all",
    "count_starts",
    "draw_distinct",
    "find_bad_env",
    "find_disc_0",
    "find_episode_begin",
    "find_episode_end",
    "find_float32",
    "find_float64",
    "find_invalid",
    "index_steps",
    "locate_leaves",
    "locate_starts",
    "prioritize_new",
    "read_rows",
    "sample_leaves",
    "settle_float32",
    "settle_float64",
    "update_float32",
    "update_float64",
    "update_priorities",
    "write_rows",
]

_INTEGERS_OF: dict[Any, int] = {
    count_starts: 6,
    draw_distinct: 4,
    find_bad_env: 4,
    find_disc_0: 7,
    find_episode_begin: 7,
    find_episode_end: 12,
    find_float32: 9,
    find_float64: 9,
    find_invalid: 6,
    index_steps: 14,
    locate_leaves: 14,
    locate_starts: 8,
    read_rows: 11,
    settle_float32: 6,
    settle_float64: 6,
    update_float32: 9,
    update_float64: 9,
    update_priorities: 16,
    write_rows: 5,
}


def compile_all() -> None:
    """Compiles every loop for the one signature that it is called with."""
    integer, number = numba.int64, numba.float64
    for loop, count in _INTEGERS_OF.items():
        loop.compile((integer,) * count)
    sample_leaves.compile((*(integer,) * 8, numba.boolean, integer))
    prioritize_new.compile((*(integer,) * 8, number, *(integer,) * 6))
    backfill_returns.compile((*(integer,) * 14, *(number,) * 3))
