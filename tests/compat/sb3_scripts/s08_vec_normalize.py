"""Normalized observations and rewards, whose statistics are saved and loaded."""

import os
import tempfile

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

folder = tempfile.mkdtemp()
vec_env = VecNormalize(make_vec_env("Pendulum-v1", n_envs=2), norm_obs=True, norm_reward=True, clip_obs=10.0)
model = PPO("MlpPolicy", vec_env, n_steps=128, gamma=0.95)
model.learn(total_timesteps=512)
model.save(os.path.join(folder, "ppo_pendulum"))
vec_env.save(os.path.join(folder, "vec_normalize.pkl"))
mean = vec_env.obs_rms.mean.copy()
del model, vec_env

import gymnasium as gym  # noqa: E402

vec_env = DummyVecEnv([lambda: gym.make("Pendulum-v1")])
vec_env = VecNormalize.load(os.path.join(folder, "vec_normalize.pkl"), vec_env)
vec_env.training = False
vec_env.norm_reward = False
model = PPO.load(os.path.join(folder, "ppo_pendulum"), env=None)
obs = vec_env.reset()
for _ in range(5):
    action, _ = model.predict(obs)
    obs, reward, done, info = vec_env.step(action)
assert np.array_equal(vec_env.obs_rms.mean, mean) and vec_env.obs_rms.count > 500
assert np.allclose(vec_env.unnormalize_obs(obs), vec_env.get_original_obs(), atol=1e-4)
