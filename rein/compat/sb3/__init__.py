"""Names of Stable-Baselines3 over our algorithms: change the import of a script, and it runs.

    from rein.compat.sb3 import PPO
    from rein.compat.sb3.common.env_util import make_vec_env

    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=4), verbose=1)
    model.learn(25_000)

Keywords have that library's defaults. Those that cannot be honoured are refused by name. See docs/from_sb3.md.
"""

from rein.compat.sb3.algorithms import A2C, DDPG, DQN, PPO, SAC, TD3

__all__ = ["A2C", "DDPG", "DQN", "PPO", "SAC", "TD3"]
