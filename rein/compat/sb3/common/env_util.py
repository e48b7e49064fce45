"""See `rein.compat.sb3.worlds`."""

from rein.compat.sb3.worlds import (
    is_wrapped,
    make_atari_env,
    make_vec_env,
    unwrap_wrapper,
)

__all__ = [
    "is_wrapped",
    "make_atari_env",
    "make_vec_env",
    "unwrap_wrapper",
]
