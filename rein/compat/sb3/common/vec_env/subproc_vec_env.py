"""See `rein.compat.sb3.subproc_vec_env`."""

from rein.compat.sb3.subproc_vec_env import (
    SubprocVecEnv,
)

__all__ = [
    "SubprocVecEnv",
]
