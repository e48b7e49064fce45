"""Worlds in processes of their own, with methods and attributes called from here."""

import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import SubprocVecEnv


def make_env(env_id: str, rank: int, seed: int = 0):
    def _init():
        env = gym.make(env_id)
        env.reset(seed=seed + rank)
        return env

    set_random_seed(seed)
    return _init


if __name__ == "__main__":
    vec_env = SubprocVecEnv([make_env("CartPole-v1", i) for i in range(2)])
    model = PPO("MlpPolicy", vec_env, n_steps=64, batch_size=32)
    model.learn(total_timesteps=256)
    assert vec_env.get_attr("spec")[0].id == "CartPole-v1"
    vec_env.set_attr("my_number", 3, indices=[1])
    assert vec_env.get_attr("my_number", 1) == [3]
    vec_env.close()
    other = make_vec_env("CartPole-v1", n_envs=2, vec_env_cls=SubprocVecEnv, vec_env_kwargs=dict(start_method="fork"))
    assert other.reset().shape == (2, 4)
    other.close()
