"""A learner in the place of an algorithm: it says how often to update, and from how many rows."""

from rein.config import config, import_config
from rein.learners import LearnerAlgorithm

import_config("parts/budgeted_run.py")

config(
    "TrainerConfig",
    algorithm_ctor=LearnerAlgorithm,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    num_eval_environments=20,
    summary_interval=1000,
)
