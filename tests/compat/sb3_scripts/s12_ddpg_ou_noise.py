"""DDPG with Ornstein-Uhlenbeck noise; several updates after every hundred steps."""

import numpy as np
from stable_baselines3 import DDPG
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import OrnsteinUhlenbeckActionNoise

vec_env = make_vec_env("Pendulum-v1", n_envs=1)
noise = OrnsteinUhlenbeckActionNoise(mean=np.zeros(1), sigma=0.5 * np.ones(1))
model = DDPG(
    "MlpPolicy",
    vec_env,
    action_noise=noise,
    train_freq=(50, "step"),
    gradient_steps=10,
    batch_size=32,
    policy_kwargs=dict(net_arch=dict(pi=[32], qf=[32, 32])),
)
model.learn(200)
assert model.num_timesteps == 200
