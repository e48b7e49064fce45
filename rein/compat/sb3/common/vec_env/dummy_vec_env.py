"""See `rein.compat.sb3.dummy_vec_env`."""

from rein.compat.sb3.dummy_vec_env import (
    DummyVecEnv,
)

__all__ = [
    "DummyVecEnv",
]
