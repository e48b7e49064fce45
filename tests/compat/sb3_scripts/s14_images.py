"""Images with the channels last, a CNN, stacked frames, and an encoder of one's own."""

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
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


class CustomCNN(BaseFeaturesExtractor):
    def __init__(self, observation_space: spaces.Box, features_dim: int = 256):
        super().__init__(observation_space, features_dim)
        self.cnn = th.nn.Sequential(
            th.nn.Conv2d(observation_space.shape[0], 4, kernel_size=8, stride=4), th.nn.ReLU(), th.nn.Flatten()
        )
        with th.no_grad():
            n_flatten = self.cnn(th.as_tensor(observation_space.sample()[None]).float()).shape[1]
        self.linear = th.nn.Sequential(th.nn.Linear(n_flatten, features_dim), th.nn.ReLU())

    def forward(self, observations: th.Tensor) -> th.Tensor:
        return self.linear(self.cnn(observations))


policy_kwargs = dict(features_extractor_class=CustomCNN, features_extractor_kwargs=dict(features_dim=8))
model = PPO("CnnPolicy", Blink(), policy_kwargs=policy_kwargs, n_steps=16, batch_size=16, n_epochs=1)
model.learn(32)
assert model.predict(np.zeros((36, 36, 1), np.uint8))[0] in (0, 1)
