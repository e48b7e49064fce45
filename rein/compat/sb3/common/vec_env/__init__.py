"""See `rein.compat.sb3.vec_env` and the modules beside it."""

from rein.compat.sb3.dummy_vec_env import DummyVecEnv
from rein.compat.sb3.monitoring import VecMonitor
from rein.compat.sb3.subproc_vec_env import SubprocVecEnv
from rein.compat.sb3.vec_env import VecEnv, VecEnvWrapper, is_vecenv_wrapped, unwrap_vec_wrapper
from rein.compat.sb3.vec_normalize import VecNormalize, sync_envs_normalization, unwrap_vec_normalize
from rein.compat.sb3.vec_wrappers import VecCheckNan, VecExtractDictObs, VecFrameStack, VecTransposeImage

__all__ = [
    "DummyVecEnv",
    "SubprocVecEnv",
    "VecCheckNan",
    "VecEnv",
    "VecEnvWrapper",
    "VecExtractDictObs",
    "VecFrameStack",
    "VecMonitor",
    "VecNormalize",
    "VecTransposeImage",
    "is_vecenv_wrapped",
    "sync_envs_normalization",
    "unwrap_vec_normalize",
    "unwrap_vec_wrapper",
]
