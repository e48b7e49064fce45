"""Observations in a dict, with MultiInputPolicy."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import DQN, PPO


class Mixed(gym.Env):
    def __init__(self):
        self.observation_space = spaces.Dict(
            {
                "position": spaces.Box(-1.0, 1.0, (3,), np.float32),
                "room": spaces.Discrete(4),
            }
        )
        self.action_space = spaces.Discrete(3)

    def _obs(self):
        return {
            "position": self.np_random.uniform(-1, 1, 3).astype(np.float32),
            "room": int(self.np_random.integers(4)),
        }

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._obs(), {}

    def step(self, action):
        self.steps += 1
        return self._obs(), float(action == 1), False, self.steps >= 20, {}


model = PPO("MultiInputPolicy", Mixed(), n_steps=64, batch_size=32).learn(128)
obs = model.get_env().reset()
action, _ = model.predict(obs)
assert action.shape == (1,)
DQN("MultiInputPolicy", Mixed(), learning_starts=10, buffer_size=500).learn(60)
