"""Checkpoints every so many steps, with several callbacks in a list."""

import os
import tempfile

from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import (
    CallbackList,
    CheckpointCallback,
    EveryNTimesteps,
    StopTrainingOnMaxEpisodes,
)

folder = tempfile.mkdtemp()
checkpoints = CheckpointCallback(save_freq=60, save_path=folder, name_prefix="sac", save_replay_buffer=True)
events = EveryNTimesteps(n_steps=50, callback=CheckpointCallback(save_freq=1, save_path=folder, name_prefix="event"))
callback = CallbackList([checkpoints, events, StopTrainingOnMaxEpisodes(max_episodes=3)])
model = SAC("MlpPolicy", "Pendulum-v1", learning_starts=40, batch_size=16, policy_kwargs={"net_arch": [16]})
model.learn(120, callback=callback)
names = sorted(os.listdir(folder))
assert "sac_60_steps.zip" in names and "sac_120_steps.zip" in names
assert "sac_replay_buffer_60_steps.pkl" in names and "event_100_steps.zip" in names
model = SAC.load(os.path.join(folder, "sac_120_steps"), env="Pendulum-v1")
model.load_replay_buffer(os.path.join(folder, "sac_replay_buffer_120_steps.pkl"))
model.learn(20, reset_num_timesteps=False)
assert model.num_timesteps == 140
