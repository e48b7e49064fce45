"""Saves a DQN, deletes it, loads it, and goes on."""

import os
import tempfile

import numpy as np
from stable_baselines3 import DQN

folder = tempfile.mkdtemp()
model = DQN("MlpPolicy", "CartPole-v1", learning_starts=50, seed=1)
model.learn(total_timesteps=200, log_interval=4)
obs = model.get_env().reset()
expected = model.predict(obs, deterministic=True)[0]
model.save(os.path.join(folder, "dqn_cartpole"))
del model

assert os.path.exists(os.path.join(folder, "dqn_cartpole.zip"))
model = DQN.load(os.path.join(folder, "dqn_cartpole"))
assert np.array_equal(model.predict(obs, deterministic=True)[0], expected)
assert model.num_timesteps == 200
model = DQN.load(os.path.join(folder, "dqn_cartpole.zip"), env="CartPole-v1")
model.learn(100, reset_num_timesteps=False)
assert model.num_timesteps == 300
