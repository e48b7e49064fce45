"""Runs that lost something: one says so and does not hold up the others."""

import shutil
from pathlib import Path

import pytest

import rein
from rein.cli import main
from rein.training.run_directory import RunDirectoryError
from rein.training.statistics_of_runs import find_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    small = {"unroll_length": 8, "mini_batch_size": 16, "settings": {"TrainerConfig.evaluate": False}}
    with rein.make("ppo", env="CartPole-v1", directory=path / "good", **small) as agent:
        agent.train(60)
    shutil.copytree(path / "good", path / "bad")
    (path / "bad" / "run.json").write_text("{broken")
    shutil.copytree(path / "good", path / "lost")
    shutil.rmtree(path / "lost" / "checkpoints")
    return path


def test_a_damaged_record_is_left_out_by_name(runs: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert {run.path.name for run in find_runs([runs])} == {"good", "lost"}
    assert "bad/run.json is damaged" in caplog.text
    with pytest.raises(RunDirectoryError, match=r"bad/run\.json is damaged"):
        find_runs([runs / "bad"])[0].record()


def test_a_run_without_its_checkpoints_does_not_begin_again(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (runs / "lost" / "run.json").read_text()
    assert main(["resume", str(runs / "lost"), "--env-steps", "200"]) == 2
    assert "the checkpoints of" in capsys.readouterr().err
    assert (runs / "lost" / "run.json").read_text() == before
