"""Evaluation on the way, the best model kept, and a stop at a threshold."""

import os
import tempfile

import gymnasium as gym
import numpy as np
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import EvalCallback, StopTrainingOnRewardThreshold
from stable_baselines3.common.monitor import Monitor

folder = tempfile.mkdtemp()
eval_env = Monitor(gym.make("CartPole-v1"))
stop = StopTrainingOnRewardThreshold(reward_threshold=5, verbose=1)
callback = EvalCallback(
    eval_env,
    callback_on_new_best=stop,
    n_eval_episodes=2,
    eval_freq=100,
    best_model_save_path=folder,
    log_path=folder,
    verbose=1,
)
model = A2C("MlpPolicy", "CartPole-v1", seed=0)
model.learn(5_000, callback=callback)
assert model.num_timesteps == 100
assert callback.best_mean_reward >= 5
best = A2C.load(os.path.join(folder, "best_model"))
evaluations = np.load(os.path.join(folder, "evaluations.npz"))
assert evaluations["timesteps"].tolist() == [100] and evaluations["results"].shape == (1, 2)
assert best.predict(eval_env.reset()[0])[0] in (0, 1)
