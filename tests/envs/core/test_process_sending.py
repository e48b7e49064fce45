"""Worlds in other processes are made as they are here: with the same configuration, and also from what a conf defines."""

from pathlib import Path

import pytest
import torch

from rein.config import config, fresh_configs, load_config
from rein.config.sending import configs_to_send
from rein.envs import create_environment
from rein.envs.wrappers import FrameSkip
from rein.runtime.processes.sending import pack, unpack

CONF = """
import gymnasium as gym
import rein
import rein.replay
from rein.envs.wrappers import FrameSkip

def slow_cart():
    return gym.make("CartPole-v1")

rein.config("FrameSkip", skip=3)
rein.config("create_environment", env_name=slow_cart, wrappers=[FrameSkip], backend="process")
rein.config("ReplayBuffer", num_environments=5)
"""


@pytest.mark.parametrize("backend", ["sync", "process"])
def test_worlds_are_configured_in_every_backend(backend: str) -> None:
    with fresh_configs():
        config("FrameSkip", skip=4)
        with create_environment("CartPole-v1", 1, backend=backend, wrappers=[FrameSkip], seed=0) as env:
            env.reset()
            assert env.step(torch.zeros(1, dtype=torch.int64)).reward.item() == 4.0


def test_a_world_that_a_conf_defines_is_made_in_workers(tmp_path: Path) -> None:
    (tmp_path / "cart.py").write_text(CONF)
    with fresh_configs():
        load_config(tmp_path / "cart.py")
        with create_environment(seed=0) as env:
            env.reset()
            assert env.step(torch.zeros(1, dtype=torch.int64)).reward.item() == 3.0


def test_only_chosen_values_are_sent(tmp_path: Path) -> None:
    (tmp_path / "cart.py").write_text(CONF)
    with fresh_configs():
        load_config(tmp_path / "cart.py")
        all_of_them = configs_to_send().settings
        chosen = configs_to_send(lambda name: name.startswith("rein.envs.")).settings
    assert [name.rpartition(".")[2] for name in chosen] == ["skip", "env_name", "wrappers", "backend"]
    assert [name.rpartition(".")[2] for name in all_of_them.keys() - chosen.keys()] == ["num_environments"]


def test_what_is_left_out_arrives_as_none() -> None:
    inner = [1, {"kept": torch.ones(2), "env": FrameSkip}]
    received = unpack(pack((inner, 3.5), leave_out=(torch.Tensor,)))
    assert received == ([1, {"kept": None, "env": FrameSkip}], 3.5)


def test_the_recipe_of_an_environment_makes_the_same_worlds() -> None:
    with create_environment("CartPole-v1", 2, backend="auto", seed=7) as env:
        assert env.recipe is not None
        first = env.reset().observation.clone()
        with unpack(pack(env.recipe))() as other:
            assert type(other) is type(env)
            assert torch.equal(other.reset().observation, first)
