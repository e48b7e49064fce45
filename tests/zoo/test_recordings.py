"""Entries that learn from recordings: what they name is made, once, and by seed."""

from pathlib import Path
from typing import Any

import pytest

from rein import zoo
from rein.replay.datasets import DataSet
from rein.zoo import recordings
from rein.zoo.recordings import Recording, make_recordings, recordings_of


def entry(**facts: Any) -> zoo.ZooEntry:
    return zoo.ZooEntry("mine", Path("mine.py"), "Mine.", {"algorithm": "BcAlgorithm", **facts})


def test_every_entry_names_recordings_that_can_be_made() -> None:
    named = {task.name: recordings_of(task) for task in zoo.task_entries().values() if "recordings" in task.facts}
    assert {"bc_cartpole", "bc_pendulum"} <= set(named)
    for name, wanted in named.items():
        for one in wanted:
            source = zoo.find_task(one.run)
            assert source.env == zoo.find_task(name).env
            assert one.replay or one.episodes > 0
            assert 0 < one.at <= 1


def test_what_is_named_is_trained_recorded_and_joined_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, ...]] = []

    def run(*words: str) -> None:
        commands.append(words)
        if words[0] == "train":
            folder = Path(words[words.index("--dir") + 1])
            folder.mkdir(parents=True)
            (folder / "run.json").write_text('{"status": "finished"}')
        else:
            Path(words[words.index("--out") + 1]).touch()

    monkeypatch.setattr(recordings, "_run", run)
    monkeypatch.setattr(recordings, "_checkpoint", lambda path, share: int(1000 * share))
    mixed = entry(
        recordings=[
            {"run": "sac_pendulum", "episodes": 5, "policy": "random"},
            {"run": "sac_pendulum", "episodes": 7, "at": 0.3},
        ]
    )
    first = make_recordings(mixed, tmp_path, lambda text: None)
    assert [words[0] for words in commands] == ["train", "record", "record", "data"]
    assert "--checkpoint 300" in " ".join(commands[2])
    assert make_recordings(mixed, tmp_path, lambda text: None) == first
    assert len(commands) == 4
    with pytest.raises(ValueError, match="names no recordings"):
        make_recordings(entry(), tmp_path)


def test_a_replay_buffer_is_recorded_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(recordings, "_run", lambda *words: commands.append(words))
    make_recordings(entry(recordings=[{"run": "sac_pendulum", "replay": True}]), tmp_path, lambda text: None)
    assert [words[0] for words in commands] == ["train", "record"]
    assert "--replay" in commands[1]
    assert "--episodes" not in commands[1]


@pytest.mark.parametrize("facts", [{}, {"replay": True, "episodes": 3}])
def test_a_recording_is_of_episodes_or_of_a_replay_buffer(facts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="mine: a recording of sac_pendulum has replay="):
        recordings_of(entry(recordings=[{"run": "sac_pendulum", **facts}]))


@pytest.mark.slow
def test_the_same_recordings_give_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = recordings._run
    short = ["TrainerConfig.num_env_steps=512", "TrainerConfig.num_evals=1"]
    monkeypatch.setattr(recordings, "_run", lambda *words: run(*words, *(short if words[0] == "train" else ())))
    wanted = entry(recordings=[Recording("ppo_cartpole", 3)._asdict()])
    sums = [DataSet.open(make_recordings(wanted, tmp_path / name)).manifest.checksums for name in ("a", "b")]
    assert sums[0] == sums[1]
