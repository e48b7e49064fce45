"""PPO on ALE/Pong-v5 in an hour of a core: small normalized pictures and a higher rate, else the defaults of PPO."""

from functools import partial

from rein.config import config, import_config, pre_config
from rein.transforms import FrameStacker, ObservationNormalizer, RewardClipping

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "ALE/Pong-v5",
    "env_steps": 800_000,
    "bar": -10,
    "reference": "-20.5 is about what actions at random earn; -10 was asked of two hours on two cores, 21 is the best return",
}

# Before the base, which asks whether this is Atari. Pictures of 84 x 84 take four times as long.
config("create_environment", env_name="ALE/Pong-v5", env_kwargs={"screen_size": 42})
pre_config({"learning_rate": 5e-4})
import_config("bases/ppo.py")

config(
    "TrainerConfig",
    num_env_steps=800_000,
    data_transformer_ctor=[FrameStacker, partial(ObservationNormalizer, clipping=5.0), RewardClipping],
    num_evals=8,
    num_eval_episodes=5,
    num_eval_environments=5,
)
