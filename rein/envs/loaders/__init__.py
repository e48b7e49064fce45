"""Functions for `create_environment(env_load_fn=...)`: each makes one world from its name and wraps it.

A loader takes the name first and returns a `gymnasium.Env`; its other parameters are given by a conf:

    config("create_environment", env_name="Pendulum-v1", env_load_fn=suite_gym.load)
    config("suite_gym.load", max_episode_steps=100, gym_env_wrappers=(FrameSkip,))
"""

from rein.envs.loaders import suite_dmc, suite_gym, suite_robotics

__all__ = ["suite_dmc", "suite_gym", "suite_robotics"]
