"""Replay buffers that do not fit into memory: shorter by default, refused if asked for."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import rein
from rein.training import replay_memory
from tests.training.any_environment import AMOUNTS, World

MEMORY = 50_000_000
SETTINGS = {
    "TrainerConfig.evaluate": False,
    "TrainerConfig.initial_collect_steps": 4,
    "TrainerConfig.mini_batch_size": 4,
}


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_memory, "memory_limit", lambda: MEMORY)


def world() -> World:
    return World(spaces.Box(0, 255, (40, 40, 3), np.uint8), AMOUNTS)


def make(directory: Path, **settings: Any) -> Any:
    return rein.make("td3", env=world, directory=directory, settings=SETTINGS | settings)


def test_a_default_length_is_shortened_said_and_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), make(tmp_path / "run") as agent:
        agent.train(8, progress=False)
        buffer = agent._trainer.algorithm.learning.buffer
        length = buffer.max_length
        assert 0.4 * MEMORY < length * 40 * 40 * 3 < 0.5 * MEMORY
        assert buffer.memory_bytes < 0.52 * MEMORY
    said = [record.getMessage() for record in caplog.records if "replay buffer" in record.getMessage()]
    assert len(said) == 1
    assert f"{length:,}" in said[0]
    assert "1,000,000" in said[0]
    caplog.clear()
    with rein.load(tmp_path / "run", env=world) as agent:
        agent.train(12, progress=False)
        assert agent._trainer.algorithm.learning.buffer.max_length == length
    assert not [record for record in caplog.records if "replay buffer" in record.getMessage()]


def test_a_length_that_was_asked_for_is_refused_with_one_that_fits(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"replay_buffer_length is 20,000.*give at most \d,\d{3}"):
        make(tmp_path / "run", **{"TrainerConfig.replay_buffer_length": 20_000})
    assert not (tmp_path / "run").exists()


def test_a_length_that_was_asked_for_may_take_all_memory_or_files(tmp_path: Path) -> None:
    for extra in ({"TrainerConfig.replay_buffer_length": 9_000}, {"ReplayBuffer.storage": "mmap"}):
        with make(tmp_path / str(len(str(extra))), **extra) as agent:
            expected = extra.get("TrainerConfig.replay_buffer_length", 1_000_000)
            assert agent._trainer.config.replay_buffer_length == expected
