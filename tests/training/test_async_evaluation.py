"""Evaluation in another process gives what evaluation in this one gives, and never outlives the run."""

import logging
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch

from rein.config import config, fresh_configs, save_config
from rein.framework import TrainerConfig
from rein.training import RunDirectory, Trainer
from rein.training.async_evaluation import AsyncEvaluator, EvaluationWorkerError
from rein.training.launch import configure

CONF = """
import gymnasium as gym
import numpy as np
from rein.algorithms.on_policy import ActorCriticAlgorithm
from rein.config import config
from rein.optimizers import Adam
from rein.transforms import ObservationNormalizer

class SometimesRight(gym.Wrapper):
    env_info_space = gym.spaces.Dict(is_success=gym.spaces.Box(0, 1, (), np.float32))

    def step(self, action):
        *step, info = self.env.step(action)
        return *step, {**info, "is_success": float(step[0][0] > 0)}

def cart():
    return SometimesRight(gym.make("CartPole-v1"))

config("create_environment", env_name=cart, num_parallel_environments=2, backend="sync")
config("ActorCriticAlgorithm", optimizer=Adam(lr=1e-2))
config(
    "TrainerConfig",
    algorithm_ctor=ActorCriticAlgorithm,
    data_transformer_ctor=ObservationNormalizer,
    num_iterations=6,
    unroll_length=5,
    random_seed=0,
    evaluate=True,
    eval_interval=2,
    num_eval_episodes=3,
    num_checkpoints=2,
)
"""


@pytest.fixture(autouse=True)
def conf(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "a2c.py").write_text(CONF)
    with fresh_configs():
        configure(tmp_path / "a2c.py")
        yield


class Recorder:
    def __init__(self) -> None:
        self.evaluations: list[Any] = []

    def on_iteration(self, progress: Any) -> None:
        pass

    def on_evaluation(self, progress: Any, result: Any) -> None:
        successes = None if result.successes is None else result.successes.tolist()
        self.evaluations.append((progress.iterations, result.returns.tolist(), successes))


def make(path: Path, observer: Recorder, is_saved: bool = True, **settings: Any) -> Trainer:
    directory = RunDirectory.create(path)
    trainer = Trainer(TrainerConfig(str(path), **settings), directory, [observer], tensorboard=False)
    if is_saved:
        save_config(directory.config)
    directory.start()
    return trainer


def is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_it_gives_what_evaluation_in_this_process_gives(tmp_path: Path) -> None:
    here, there = Recorder(), Recorder()
    first = make(tmp_path / "here", here, async_eval=False)
    first.train()
    second = make(tmp_path / "there", there, async_eval=True)
    result = second.train()
    assert second._evaluation._worker is not None
    process = second._evaluation._worker._process.pid
    second.close()
    assert is_gone(process)
    assert [iterations for iterations, _, _ in there.evaluations] == [2, 4, 6]
    assert there.evaluations == here.evaluations
    assert all(successes is not None for _, _, successes in there.evaluations)
    assert result.evaluation is not None
    assert result.evaluation.returns.tolist() == here.evaluations[-1][1]
    for a, b in zip(first.algorithm.parameters(), second.algorithm.parameters(), strict=True):
        assert torch.equal(a, b)
    assert [e["iterations"] for e in RunDirectory(tmp_path / "there").read_evaluations()] == [2, 4, 6]
    first.close()


def test_without_a_saved_configuration_it_falls_back_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Recorder()
    with caplog.at_level(logging.WARNING):
        trainer = make(tmp_path / "run", seen, is_saved=False)
        trainer.train()
        trainer.close()
    assert len(seen.evaluations) == 3
    assert caplog.text.count("asynchronous evaluation") == 1


def test_a_configuration_that_another_process_cannot_build_falls_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config("create_environment", env_name=lambda: gym.make("CartPole-v1"), replace=True, raise_if_used=False)
    seen = Recorder()
    with caplog.at_level(logging.WARNING):
        trainer = make(tmp_path / "run", seen)
        trainer.train()
        trainer.close()
    assert len(seen.evaluations) == 3
    assert caplog.text.count("asynchronous evaluation is not possible") == 1


def test_a_process_that_dies_is_reported_and_close_does_not_hang(tmp_path: Path) -> None:
    seen = Recorder()
    trainer = make(tmp_path / "run", seen)
    evaluator = AsyncEvaluator(trainer.directory)
    assert evaluator.wait_until_ready()
    assert evaluator.collect(wait=True) is None
    evaluator.submit(trainer.algorithm, seed=1, num_episodes=10**6, tag="long")
    assert evaluator.collect(wait=False) is None
    os.kill(evaluator._process.pid, signal.SIGKILL)
    with pytest.raises(EvaluationWorkerError, match="the evaluation process failed"):
        evaluator.collect(wait=True)
    evaluator.close()
    busy = AsyncEvaluator(trainer.directory)
    assert busy.wait_until_ready()
    busy.submit(trainer.algorithm, seed=1, num_episodes=10**6, tag="long")
    started = time.monotonic()
    busy.close()
    assert time.monotonic() - started < 60
    assert is_gone(busy._process.pid)
    trainer.close()
