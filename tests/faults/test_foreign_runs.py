"""Opening the run of somebody else runs nothing of it."""

import json
import sys
from pathlib import Path

import pytest

import rein
from rein.cli import main
from rein.config import UntrustedCodeError

TINY = [
    "TrainerConfig.num_env_steps=64",
    "TrainerConfig.unroll_length=8",
    "TrainerConfig.mini_batch_size=16",
    "TrainerConfig.num_updates_per_train_iter=1",
    "TrainerConfig.evaluate=False",
    "create_environment.num_parallel_environments=2",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run of an entry of the zoo; not to be changed."""
    path = tmp_path_factory.mktemp("foreign") / "run"
    assert main(["train", "ppo_cartpole", *TINY, "--dir", str(path)]) == 0
    return path


def _copy(run, target):
    import shutil

    shutil.copytree(run, target)
    return target


def _open_in_every_way(path):
    """Exit codes and errors of all that opens a run."""
    codes = [
        main(["evaluate", str(path), "--episodes", "1"]),
        main(["show", str(path)]),
        main(["resume", str(path), "--env-steps", "80"]),
        main(["play", str(path), "--output", str(path / "x.gif")]),
        main(["record", str(path), "--episodes", "1", "--out", str(path.parent / "x.data")]),
    ]
    with pytest.raises(UntrustedCodeError):
        rein.load(path)
    return codes


def test_runs_of_the_zoo_open_without_trust(run):
    assert main(["evaluate", str(run), "--episodes", "1"]) == 0
    assert rein.load(run).evaluate(1).lengths.shape == (1,)


def test_a_changed_conf_is_not_run(run, tmp_path, capfd):
    path, marker = _copy(run, tmp_path / "run"), tmp_path / "executed"
    for conf in (path / "config/conf").rglob("*.py"):
        conf.write_text(f"open({str(marker)!r}, 'w').close()\n" + conf.read_text())
    operative = path / "config/operative.py"
    operative.write_text(f"open({str(marker)!r}, 'w').close()\n" + operative.read_text())
    # The values are data, so the run still opens, and what was put into the confs stays unread.
    assert main(["evaluate", str(path), "--episodes", "1"]) == 0
    assert not marker.exists()
    (path / "config/values.json").unlink()
    assert _open_in_every_way(path) == [2] * 5
    assert "--trust" in capfd.readouterr().err
    assert not marker.exists()
    assert main(["evaluate", str(path), "--episodes", "1", "--trust"]) == 0
    assert marker.exists()


def test_a_world_of_another_module_is_not_imported(run, tmp_path, capfd, monkeypatch):
    path, marker = _copy(run, tmp_path / "run"), tmp_path / "executed"
    (tmp_path / "evil_worlds.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(tmp_path)
    index = json.loads((path / "config/overrides.json").read_text())
    index["overrides"]["create_environment.env_name"] = "'evil_worlds:CartPole-v1'"
    (path / "config/overrides.json").write_text(json.dumps(index))
    assert _open_in_every_way(path) == [2] * 5
    assert "would import the module evil_worlds" in capfd.readouterr().err
    assert not marker.exists()
    assert "evil_worlds" not in sys.modules


@pytest.mark.parametrize(
    "value",
    [
        {"$name": "os:system"},
        {"$partial": "os:system", "args": ["touch MARKER"], "keywords": {}},
        {"$partial": "builtins:exec", "args": ["open('MARKER', 'w')"], "keywords": {}},
        {"$call": "subprocess:Popen", "args": [["touch", "MARKER"]], "keywords": {}, "number": 0},
        {"$partial": "rein.config.conf_files:load_config", "args": ["MARKER.py"], "keywords": {}},
        {"$partial": "torch.hub:load", "args": ["MARKER"], "keywords": {}},
        {"$partial": "runpy:run_path", "args": ["MARKER.py"], "keywords": {}},
        {"$name": "evil_module:Algorithm"},
    ],
)
def test_hostile_values_execute_nothing(run, tmp_path, value):
    path, marker = _copy(run, tmp_path / "run"), tmp_path / "executed"
    Path(f"{marker}.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    for conf in (path / "config/conf").rglob("*.py"):
        conf.write_text("# not of the zoo\n" + conf.read_text())
    values = json.loads((path / "config/values.json").read_text())
    name = next(name for name in values["settings"] if name.endswith("TrainerConfig.algorithm_ctor"))
    values["settings"][name]["value"] = json.loads(json.dumps(value).replace("MARKER", str(marker)))
    (path / "config/values.json").write_text(json.dumps(values))
    assert main(["evaluate", str(path), "--episodes", "1"]) == 2
    assert main(["show", str(path)]) == 2
    assert not marker.exists()
