"""Episodes in CSV files, and a function as callback that looks at them."""

import glob
import os
import tempfile

import gymnasium as gym
from stable_baselines3 import A2C
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor, get_monitor_files

log_dir = tempfile.mkdtemp()
env = Monitor(gym.make("CartPole-v1"), log_dir)
seen = []


def look(locals_, globals_):
    seen.append(locals_["self"].num_timesteps)
    return True


model = A2C("MlpPolicy", env).learn(200, callback=look)
assert seen[-1] == 200 and len(seen) == 200
lines = open(os.path.join(log_dir, "monitor.csv")).read().splitlines()
assert lines[0].startswith("#{") and lines[1] == "r,l,t" and len(lines) > 3
assert env.get_episode_rewards() and env.get_total_steps() > 100
vec_env = make_vec_env("CartPole-v1", n_envs=2, monitor_dir=os.path.join(log_dir, "many"))
A2C("MlpPolicy", vec_env).learn(100)
assert (
    len(get_monitor_files(os.path.join(log_dir, "many"))) == 2 == len(glob.glob(os.path.join(log_dir, "many", "*.csv")))
)
assert len(model.ep_info_buffer) > 0 and "r" in model.ep_info_buffer[0]
