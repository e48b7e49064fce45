"""Small runs of zoo algorithms, without a trainer."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from rein.config import fresh_configs, install_name_resolver, pre_config
from rein.distributed import Scheme, attach
from rein.envs import create_environment
from rein.framework import RLAlgorithm, TrainerConfig
from rein.runtime import Run
from rein.training.construction import build_algorithm
from rein.training.launch import configure
from rein.zoo import find_algorithm

os.environ.setdefault("RAY_worker_niceness", "0")

SMALL: dict[str, dict[str, Any]] = {
    "ppo": {"unroll_length": 16, "num_updates_per_train_iter": 2, "mini_batch_length": 1, "mini_batch_size": 16},
    "dqn": {"unroll_length": 8, "initial_collect_steps": 64, "mini_batch_size": 16, "num_updates_per_train_iter": 2},
    "apex": {"unroll_length": 8, "initial_collect_steps": 64, "mini_batch_size": 16, "num_updates_per_train_iter": 2},
    "r2d2": {"unroll_length": 8, "initial_collect_steps": 64, "mini_batch_size": 8, "num_updates_per_train_iter": 1},
    "sac": {"unroll_length": 8, "initial_collect_steps": 64, "mini_batch_size": 16, "num_updates_per_train_iter": 2},
}


SMALL["ddpg"] = SMALL["sac"]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Any]:
    """Builds an algorithm with a scheme, or without any; everything is closed at the end of the test."""
    with ExitStack() as stack:

        def make(name: str = "ppo", env: str = "CartPole-v1", seed: int = 0, **scheme: Any) -> RLAlgorithm:
            stack.enter_context(fresh_configs())
            install_name_resolver()
            given = {f"TrainerConfig.{key}": value for key, value in SMALL[name].items()}
            world = {"env_name": env, "num_parallel_environments": 4, "num_workers": 1}
            given |= {f"create_environment.{key}": value for key, value in world.items()}
            pre_config({**given, "TrainerConfig.num_env_steps": 10000}, place="test")
            configure(find_algorithm(name).path)
            config = TrainerConfig(root_dir=str(tmp_path))
            run = Run(seed=seed)
            stack.enter_context(run)
            run.seed_everything()
            torch.manual_seed(seed)
            world_of_updater = create_environment(seed=seed)
            stack.callback(world_of_updater.close)
            algorithm = build_algorithm(config, world_of_updater)
            stack.callback(algorithm.close_rollout)
            if scheme:
                attach(algorithm, Scheme(**scheme))
            return algorithm

        yield make
