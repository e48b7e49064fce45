"""A wrapper of a batch of one's own, and one that changes rewards of single worlds."""

import gymnasium as gym
import numpy as np
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecCheckNan, VecMonitor
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvStepReturn, VecEnvWrapper


class HalfObservations(VecEnvWrapper):
    def __init__(self, venv: VecEnv):
        space = venv.observation_space
        super().__init__(venv, observation_space=gym.spaces.Box(space.low[:2], space.high[:2], dtype=space.dtype))

    def reset(self) -> np.ndarray:
        return self.venv.reset()[:, :2]

    def step_wait(self) -> VecEnvStepReturn:
        obs, reward, done, info = self.venv.step_wait()
        return obs[:, :2], reward, done, info


class Scaled(gym.RewardWrapper):
    def reward(self, reward):
        return reward / 10


vec_env = VecCheckNan(
    HalfObservations(VecMonitor(DummyVecEnv([lambda: gym.make("CartPole-v1")] * 2))), raise_exception=True
)
model = PPO("MlpPolicy", vec_env, n_steps=64).learn(256)
assert model.predict(vec_env.reset())[0].shape == (2,)
assert len(model.ep_info_buffer) > 0 and model.ep_info_buffer[0]["l"] == model.ep_info_buffer[0]["r"]
model = DQN("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, wrapper_class=Scaled), learning_starts=20)
model.learn(100)
assert model.exploration_rate < 0.1
