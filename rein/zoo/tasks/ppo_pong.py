"""PPO on ALE/Pong-v5 in two hours of a core: smaller pictures than usual and a rate to match, else the defaults of PPO."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "ALE/Pong-v5",
    "env_steps": 1_500_000,
    "bar": -10,
    "reference": "actions at random earn about -20.5; -10 was asked of two hours on two cores, 21 is the best return",
}

# Before the base, which asks whether this is Atari. Pictures of 84 x 84 take four times as long.
config("create_environment", env_name="ALE/Pong-v5", env_kwargs={"screen_size": 42})
pre_config({"learning_rate": 5e-4})
import_config("bases/ppo.py")

config("TrainerConfig", num_env_steps=1_500_000, num_evals=15, num_eval_episodes=5, num_eval_environments=5)
