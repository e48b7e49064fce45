"""Entries of the zoo that are stopped and resumed end, bit by bit, as if they had never stopped."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest
import torch

from rein.cli import main
from rein.runtime.checkpoint import Checkpointer
from rein.training.run_directory import RunDirectory

NAMES = [
    "ddpg_hindsight_reach",
    "dqn_cartpole",
    "dqn_hindsight_bitflip",
    "mdq_pendulum",
    "mpo_pendulum",
    "oac_pendulum",
    "qrsac_pendulum",
    "sac_action_repeat_mountaincar",
    "sac_cartpole",
    "sac_mixed_moving",
    "sac_pendulum",
    "sarsa_pendulum",
    "taac_mountaincar",
    "taacl_mountaincar",
    "taacq_mountaincar",
    "td3_pendulum",
]
SHORT = {
    "num_env_steps": 400,
    "initial_collect_steps": 150,
    "mini_batch_size": 8,
    "num_checkpoints": 3,
    "compile": False,
    "evaluate": False,
}


def end_of(run: Path) -> Any:
    """All that the last checkpoint holds but the time it took."""
    components = dict(Checkpointer(run / "checkpoints").load().components)
    components["trainer"] = {**components["trainer"], "seconds": 0.0}
    return components


def is_equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    return bool(np.array_equal(a, b))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_entry_ends_as_one_that_never_stopped(name: str, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    settings = [f"TrainerConfig.{key}={value}" for key, value in SHORT.items()]
    assert main(["train", name, "--seed", "7", "--dir", str(whole), *settings]) == 0
    shutil.copytree(whole, cut)
    checkpoints = Checkpointer(cut / "checkpoints")
    for step in checkpoints.steps()[1:]:
        checkpoints.set_aside(step)
    RunDirectory.open(cut).update(status="stopped")
    torch.manual_seed(99)
    np.random.seed(99)
    assert main(["resume", str(cut)]) == 0
    (paths, expected, tree), (_, found, other_tree) = (
        optree.tree_flatten_with_path(end_of(run)) for run in (whole, cut)
    )
    assert tree == other_tree
    different = [path for path, a, b in zip(paths, expected, found, strict=True) if not is_equal(a, b)]
    assert not different
