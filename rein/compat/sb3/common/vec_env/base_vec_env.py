"""See `rein.compat.sb3.vec_env`."""

from rein.compat.sb3.vec_env import StepReturn as VecEnvStepReturn
from rein.compat.sb3.vec_env import (
    VecEnv,
    VecEnvWrapper,
)

__all__ = [
    "VecEnv",
    "VecEnvStepReturn",
    "VecEnvWrapper",
]
