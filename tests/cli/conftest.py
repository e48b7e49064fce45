from pathlib import Path

import pytest

from rein.cli import main

TINY = [
    "ppo_cartpole",
    "TrainerConfig.num_env_steps=512",
    "TrainerConfig.num_updates_per_train_iter=1",
    "TrainerConfig.num_eval_episodes=2",
    "TrainerConfig.num_evals=1",
    "TrainerConfig.num_checkpoints=2",
    "TrainerConfig.summary_interval=1",
]


@pytest.fixture(scope="session")
def tiny() -> list[str]:
    """Words that name a training of two iterations."""
    return TINY


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has finished; not to be changed."""
    path = tmp_path_factory.mktemp("runs") / "finished"
    assert main(["train", *TINY, "--seed", "1", "--dir", str(path)]) == 0
    return path
