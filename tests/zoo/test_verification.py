"""What counts as trained."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rein import cli
from rein.zoo import records, side_by_side, task_entries, verification
from rein.zoo.trained_settings import trained_settings


@pytest.mark.parametrize("status", ["stopped", "running"])
def test_a_run_that_was_stopped_is_not_scored(status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*_: Any) -> Any:
        return SimpleNamespace(poll=lambda: 0, returncode=0)

    directory = SimpleNamespace(open=lambda path: SimpleNamespace(record=lambda: {"status": status}))
    monkeypatch.setattr(side_by_side.Job, "start", ended)
    monkeypatch.setattr(side_by_side, "RunDirectory", directory)
    monkeypatch.setattr(verification, "_result", lambda *_: pytest.fail("scored"))
    with pytest.raises(RuntimeError, match="stopped before its end"):
        verification.verify(task_entries()["ppo_cartpole"], [0], tmp_path)


def test_entries_on_labelled_data_are_recorded_by_their_measure() -> None:
    entry = task_entries()["hypernetwork_digits"]
    results = [{"seed": seed, "test_acc": 0.97 + 0.02 * seed, "seconds": 60.0, "curve": [[1, 9.0]]} for seed in (0, 1)]
    record = verification._record(entry, trained_settings(entry.path), results, 100)
    assert record["score"] == pytest.approx(0.98)
    assert record["met"]
    assert (record["env"], record["epochs"]) == ("digits", 60)
    row = records._row(record)
    assert "| 60 epochs |" in row
    assert "98 %" in row
    with pytest.raises(ValueError, match="but its evaluation gives"):
        verification._record(entry, trained_settings(entry.path), [{"seed": 0, "seconds": 1.0}], 100)


def test_why_a_training_failed_is_its_last_line(tmp_path: Path) -> None:
    log = tmp_path / "seed-0.log"
    assert side_by_side.last_line(log) == "it said nothing"
    log.write_text("run directory: runs/x\nrein: error: 'Hopper-v5' needs mujoco: pip install 'rein-rl[mujoco]'\n\n")
    assert side_by_side.last_line(log) == "'Hopper-v5' needs mujoco: pip install 'rein-rl[mujoco]'"


@pytest.mark.parametrize("entry", ["vae_digits", "hypernetwork_digits"])
def test_runs_without_a_world_have_a_curve(entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "seed-0"
    assert cli.main(["train", entry, "TrainerConfig.num_iterations=2", "--dir", str(path)]) == 0
    monkeypatch.setattr(verification, "evaluate_run", lambda *_: {"test_error": 0.02})
    result = verification._result(tmp_path, 0, 1, {})
    assert result["test_error"] == 0.02
    assert len(result["curve"]) > 0
