"""Images with the channels last, a CNN, and stacked frames."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack


class Blink(gym.Env):
    def __init__(self):
        self.observation_space = spaces.Box(0, 255, (36, 36, 1), np.uint8)
        self.action_space = spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros((36, 36, 1), np.uint8), {}

    def step(self, action):
        self.steps += 1
        return np.full((36, 36, 1), 255 * action, np.uint8), float(action), self.steps >= 10, False, {}


vec_env = VecFrameStack(DummyVecEnv([Blink, Blink]), n_stack=4)
assert vec_env.observation_space.shape == (36, 36, 4)
model = PPO("CnnPolicy", vec_env, n_steps=16, batch_size=16, n_epochs=1)
model.learn(64)
obs = vec_env.reset()
action, _ = model.predict(obs, deterministic=True)
assert action.shape == (2,)
