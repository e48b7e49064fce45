"""An environment of one's own, checked, then learnt."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env


class GoLeftEnv(gym.Env):
    metadata = {"render_modes": ["console"]}
    LEFT, RIGHT = 0, 1

    def __init__(self, grid_size=10, render_mode="console"):
        super().__init__()
        self.render_mode = render_mode
        self.grid_size = grid_size
        self.agent_pos = grid_size - 1
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(low=0, high=grid_size, shape=(1,), dtype=np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.agent_pos = self.grid_size - 1
        return np.array([self.agent_pos], dtype=np.float32), {}

    def step(self, action):
        self.agent_pos += -1 if action == self.LEFT else 1
        self.agent_pos = np.clip(self.agent_pos, 0, self.grid_size)
        terminated = bool(self.agent_pos == 0)
        return np.array([self.agent_pos], dtype=np.float32), float(terminated), terminated, False, {}

    def render(self):
        pass

    def close(self):
        pass


env = gym.wrappers.TimeLimit(GoLeftEnv(), 100)
check_env(GoLeftEnv(), warn=False)
model = PPO("MlpPolicy", env, n_steps=128, batch_size=32, seed=0).learn(768)
obs, _ = env.reset()
for _step in range(20):
    action, _ = model.predict(obs, deterministic=True)
    obs, reward, terminated, truncated, info = env.step(action)
    if terminated:
        break
assert obs.shape == (1,)
