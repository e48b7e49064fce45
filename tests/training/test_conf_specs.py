"""Confs that ask for the specs of their environment."""

from pathlib import Path
from typing import Any

import pytest
import torch

from rein.config import GivenTooLateError, config, fresh_configs, get_config_value, load_config
from rein.envs import Environment, create_environment
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.training import conf_specs
from rein.training.conf_specs import get_observation_spec, get_raw_observation_spec
from rein.training.launch import configure

HEAD = """
import rein
from rein.config import config
from rein.transforms import FrameStacker

config("create_environment", env_name="Pendulum-v1", num_parallel_environments=4)
config("TrainerConfig", data_transformer_ctor=FrameStacker)
config("FrameStacker", stack_size=2)
"""


def test_a_conf_can_be_made_to_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Environment] = []

    def create(**kwargs: Any) -> Environment:
        made.append(create_environment(**kwargs))
        return made[-1]

    monkeypatch.setattr(conf_specs, "create_environment", create)
    conf = tmp_path / "conf.py"
    conf.write_text(
        HEAD
        + "raw, seen = rein.get_raw_observation_spec(), rein.get_observation_spec()\n"
        + "action, reward = rein.get_action_spec(), rein.get_reward_spec()\n"
        + "config('ActorNetwork', fc_layer_params=(10 * seen.shape[0],))\n"
    )
    with fresh_configs():
        configure(conf)
        assert get_config_value("ActorNetwork.fc_layer_params") == (60,)
    with fresh_configs():
        module = load_config(conf)
    assert (module.raw.shape, module.seen.shape) == ((3,), (6,))
    assert module.action == BoundedTensorSpec((1,), torch.float32, -2.0, 2.0)
    assert module.reward == TensorSpec(())
    assert len(made) == 2, "one environment for each configuration"


def test_parts_of_an_observation_have_names() -> None:
    with fresh_configs():
        config("create_environment", env_name="rein/Reach-v0")
        assert get_raw_observation_spec("desired_goal") == get_observation_spec()["desired_goal"]


def test_settings_of_the_environment_must_come_before(tmp_path: Path) -> None:
    conf = tmp_path / "conf.py"
    conf.write_text(
        HEAD + "rein.get_action_spec()\nconfig('create_environment', env_name='CartPole-v1', replace=True)\n"
    )
    with fresh_configs(), pytest.raises(GivenTooLateError, match=r"conf.py:10: .*env_name' is given too late"):
        load_config(conf)
