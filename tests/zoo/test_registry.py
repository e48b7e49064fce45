"""The zoo describes itself, and every conf in it runs."""

import subprocess
import sys

import pytest

from rein import zoo
from rein.config import fresh_configs, get_config_value
from rein.training.launch import configure


def test_reading_the_zoo_runs_nothing() -> None:
    code = "import sys; from rein import zoo; zoo.task_entries(); zoo.algorithms(); print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(zoo.UnknownEntryError, match="Did you mean 'ppo_cartpole'"):
        zoo.find_task("ppo_cartpol")
    with pytest.raises(zoo.UnknownEntryError, match="Did you mean 'ppo'"):
        zoo.find_algorithm("ppoo")
    assert zoo.find_algorithm("PPOAlgorithm").name == "ppo"
    assert zoo.find_algorithm("DqnAlgorithm").name == "dqn"


@pytest.mark.parametrize(
    "entry", [*zoo.task_entries().values(), *zoo.algorithms().values()], ids=lambda entry: entry.name
)
def test_every_conf_does_what_its_entry_says(entry: zoo.ZooEntry) -> None:
    assert entry.summary.endswith(".")
    assert entry.facts["reference"]
    with fresh_configs():
        configure(entry.path)
        constructor = get_config_value("TrainerConfig.algorithm_ctor")
        assert getattr(constructor, "func", constructor).__name__ == entry.algorithm
        if entry.env is not None:
            assert get_config_value("create_environment.env_name") == entry.env
            assert get_config_value("TrainerConfig.num_env_steps") == entry.facts["env_steps"]
