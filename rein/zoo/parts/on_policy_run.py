"""A run that trains on each rollout of eight environments and forgets it."""

from rein.config import config, import_config

import_config("parts/budgeted_run.py")

config("create_environment", num_parallel_environments=8)
