"""TD3 with action noise."""

import gymnasium as gym
import numpy as np
from stable_baselines3 import TD3
from stable_baselines3.common.noise import NormalActionNoise

env = gym.make("Pendulum-v1", render_mode="rgb_array")
n_actions = env.action_space.shape[-1]
action_noise = NormalActionNoise(mean=np.zeros(n_actions), sigma=0.1 * np.ones(n_actions))
model = TD3(
    "MlpPolicy", env, action_noise=action_noise, verbose=1, learning_starts=50, policy_kwargs=dict(net_arch=[32, 32])
)
model.learn(total_timesteps=250, log_interval=1)
obs = model.get_env().reset()
action, _states = model.predict(obs)
assert env.action_space.contains(action[0])
