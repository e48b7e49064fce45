"""Events for TensorBoard, in runs that are numbered, and a logger of one's own."""

import glob
import os
import tempfile

from stable_baselines3 import PPO
from stable_baselines3.common.logger import configure

folder = tempfile.mkdtemp()
model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, tensorboard_log=folder)
model.learn(128, tb_log_name="first_run")
model.learn(128, tb_log_name="second_run", reset_num_timesteps=False)
model.learn(128, tb_log_name="first_run")
assert sorted(os.listdir(folder)) == ["first_run_1", "first_run_2", "second_run_1"]
assert glob.glob(os.path.join(folder, "first_run_1", "events.out.tfevents.*"))
logger = configure(os.path.join(folder, "own"), ["csv", "json", "log"])
model.set_logger(logger)
model.learn(192)
text = open(os.path.join(folder, "own", "progress.csv")).read()
assert "rollout/ep_rew_mean" in text and len(text.splitlines()) == 4
