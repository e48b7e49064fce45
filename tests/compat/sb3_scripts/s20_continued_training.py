"""Trains in rounds, in another environment from some point on, as on a task that gets harder."""

import gymnasium as gym
import numpy as np
from stable_baselines3 import SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

TIMESTEPS = 60
model = SAC(
    "MlpPolicy",
    "Pendulum-v1",
    ent_coef="auto_0.1",
    learning_starts=30,
    batch_size=32,
    tau=0.02,
    train_freq=2,
    gradient_steps=-1,
    policy_kwargs=dict(net_arch=[16, 16]),
    seed=5,
)
for i in range(1, 3):
    model.learn(total_timesteps=TIMESTEPS, reset_num_timesteps=False, tb_log_name="SAC")
    assert model.num_timesteps == TIMESTEPS * i
heavier = gym.wrappers.TimeLimit(gym.make("Pendulum-v1", g=12.0), 50)
model.set_env(heavier)
model.learn(TIMESTEPS, reset_num_timesteps=False)
mean_reward, _ = evaluate_policy(model, make_vec_env("Pendulum-v1"), n_eval_episodes=1)
assert np.isfinite(mean_reward) and model.num_timesteps == 180
