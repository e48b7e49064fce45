"""A world of the user's own on the command line: `module:Name`, found in the folder that one is in."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rein.cli import main
from rein.envs.suites import load

WORLD = """
import gymnasium
import numpy as np
from gymnasium import spaces


class Still(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode=None, value=0.5):
        self.value = np.array([value], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.value, {}

    def step(self, action):
        self.time += 1
        return self.value, float(action), self.time == 4, False, {}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "still_world.py").write_text(WORLD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("still_world", None)


def test_a_command_finds_the_module_in_its_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-env", "still_world:Still", "--steps", "20"]) == 0
    assert "no faults" in capsys.readouterr().out


def test_a_run_in_an_own_world_is_trained_and_evaluated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["num_env_steps=32", "unroll_length=4", "mini_batch_size=16", "TrainerConfig.evaluate=False"]
    assert main(["train", "--algorithm", "ppo", "--env", "still_world:Still", "--dir", "runs/a", *small]) == 0
    assert main(["evaluate", "runs/a", "--episodes", "2", "--trust"]) == 0
    assert "mean return" in capsys.readouterr().out


def test_a_conf_imports_modules_of_its_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    conf = "import rein\nfrom still_world import Still\n\nrein.import_config('bases/ppo.py')\n"
    (folder / "still_conf.py").write_text(conf + "rein.config('create_environment', env_name=Still)\n")
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert main(["show", str(folder / "still_conf.py")]) == 0


def test_a_world_gets_its_arguments_and_a_time_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    world = load("still_world:Still", value=0.25, max_episode_steps=2)
    assert world.reset()[0].tolist() == [0.25]
    world.step(0)
    assert world.step(0)[3]


def test_what_is_not_there_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--algorithm", "ppo", "--env", "still_word:Still"]) == 2
    assert "there is no module 'still_word': run in the folder" in capsys.readouterr().err
    assert main(["train", "--algorithm", "ppo", "--env", "still_world:Stil"]) == 2
    assert "still_world neither has a Stil nor registers" in capsys.readouterr().err


def test_other_commands_do_not_look_into_the_folder(folder: Path) -> None:
    assert main(["list", "parts"]) == 0
    assert str(folder) not in sys.path


def test_a_bug_of_a_world_ends_in_one_line_with_its_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "still_world.py").write_text(
        WORLD + "\n\nclass Bug(Still):\n    def step(self, action):\n        return 1 / 0\n"
    )
    command = ["train", "--algorithm", "ppo", "--env", "still_world:Bug", "--dir", "run"]
    # With their functions: other tests may have imported modules with parameters of the same names.
    settings = [f"create_environment.{name}=1" for name in ("num_workers", "num_parallel_environments")]
    settings += ["TrainerConfig.evaluate=False"]
    assert main([*command, *settings]) == 1
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith("rein: failed: EnvironmentFaultError: environment 0 raised")
    assert "ZeroDivisionError: division by zero at still_world.py:26 This is fault number" in last
    assert "Traceback" not in last
