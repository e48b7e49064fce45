"""Several discrete actions at once, and bits."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import A2C, PPO


class Locks(gym.Env):
    def __init__(self, action_space):
        self.action_space = action_space
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        assert self.action_space.contains(action), action
        return np.zeros(2, np.float32), float(np.sum(action)), False, self.steps >= 10, {}


PPO("MlpPolicy", Locks(spaces.MultiDiscrete([3, 2])), n_steps=32, batch_size=16).learn(64)
A2C("MlpPolicy", Locks(spaces.MultiBinary(3))).learn(50)
