"""What a record rests on: the settings that decide what is trained, wherever they are given."""

import json
from pathlib import Path
from typing import Any

import pytest

from rein.zoo import task_entries
from rein.zoo.conf_texts import text_hash
from rein.zoo.trained_settings import TrainedSettings, trained_settings

RECORDS = sorted((Path(__file__).parents[2] / "docs" / "results").glob("*.json"))
BASE = """
from rein.config import config, import_config
import_config("bases/ppo.py")
config("create_environment", env_name="CartPole-v1")
"""


def settings_of(folder: Path, more: str, base: str = BASE) -> TrainedSettings:
    path = folder / "conf.py"
    path.write_text(base + more)
    return trained_settings(path)


@pytest.mark.parametrize(
    ("more", "changes"),
    [
        ("", []),
        ('config("PPOLoss", gamma=0.5)', ["PPOLoss.gamma"]),
        ('config("PPOLoss", gamma=0.99)', []),
        ('config("PPOLoss", check_numerics=True)', ["PPOLoss.check_numerics"]),
        ('config("PPOLoss", check_numerics=False)', []),
        ('config("FC", use_bias=False)', ["FC.use_bias"]),
        ('config("TrainerConfig", num_env_steps=5)', ["TrainerConfig.num_env_steps"]),
        ('config("create_environment", num_parallel_environments=2)', ["create_environment.num_parallel_environments"]),
        ('config("TrainerConfig", num_summaries=7, evaluate=False, num_checkpoints=1, random_seed=3)', []),
        ('config("TrainerConfig", root_dir="elsewhere", summarize_output=True, debug_summaries=True)', []),
        ('config("create_environment", num_workers=1, step_timeout=5.0)', []),
        ('config("PPOAlgorithm", name="other")', []),
    ],
)
def test_only_what_trains_counts(tmp_path: Path, more: str, changes: list[str]) -> None:
    plain, other = settings_of(tmp_path, ""), settings_of(tmp_path, more)
    assert plain.changes_to(other) == changes
    assert other.changes_to(plain) == changes
    assert (plain.hash == other.hash) == (not changes)


def test_a_block_that_moves_to_another_file_changes_nothing(tmp_path: Path) -> None:
    block = 'config("PPOLoss", gamma=0.5)\n'
    whole = settings_of(tmp_path, block)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "block.py").write_text("from rein.config import config, import_config\n" + BASE + block)
    shared = settings_of(tmp_path, 'from rein.config import import_config\nimport_config("parts/block.py")\n', base="")
    assert shared == whole
    assert shared.hash == whole.hash


def test_a_parameter_that_comes_or_goes_with_its_default_is_no_change() -> None:
    old = TrainedSettings({"Loss.gamma": "0.5"}, {"Loss.gone": "1"})
    new = TrainedSettings({"Loss.gamma": "0.5"}, {"Loss.come": "2"})
    assert old.changes_to(new) == new.changes_to(old) == []
    assert old.changes_to(new._replace(chosen={"Loss.gamma": "0.5", "Loss.come": "3"}, defaults={})) == ["Loss.come"]
    assert old.changes_to(TrainedSettings({}, {})) == ["Loss.gamma"]
    assert old.changes_to(TrainedSettings({}, {"Loss.gamma": "0.9"})) == ["Loss.gamma"]
    assert old.changes_to(TrainedSettings({"Loss.gamma": "0.5", "Loss.gone": "4"}, {})) == ["Loss.gone"]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_no_record_is_stale_and_lists_need_not_run_the_confs(path: Path) -> None:
    record: dict[str, Any] = json.loads(path.read_text())
    entry = task_entries()[record["name"]]
    settings = trained_settings(entry.path)
    recorded = TrainedSettings(**record["settings"])
    assert recorded.changes_to(settings) == []
    assert recorded.hash == record["conf_hash"]
    assert record["conf_text"] == text_hash(entry.path), "run `rein verify --page`"
