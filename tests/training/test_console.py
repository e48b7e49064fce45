"""Displays: lines where there is no terminal, a bar where there is one."""

import io
import re

import numpy as np
import pytest

from rein import api
from rein.training.console import LatestLosses, PlainDisplay, mean_return, open_display
from rein.training.evaluation import EvaluationResult
from rein.training.progress import Progress


def progress(iterations: int, fraction: float, metrics: dict[str, float] | None = None) -> Progress:
    return Progress(iterations, 100 * iterations, fraction, 10.0 * iterations, metrics or {})


def test_lines_tell_where_a_run_stands() -> None:
    file, losses = io.StringIO(), LatestLosses()
    losses.scalar("PPOAlgorithm/loss/td_loss", 0.25, 1)
    losses.scalar("Metrics/AverageReturn", 3.0, 1)
    display = PlainDisplay(file, losses, interval=0.0)
    display.on_iteration(progress(1, 0.25))
    display.on_iteration(progress(2, 0.5, {"AverageReturn": 123.456}))
    display.on_evaluation(progress(2, 0.5), EvaluationResult(np.array([1.0, 3.0]), np.array([1, 3])))
    lines = file.getvalue().splitlines()
    assert lines[0].split() == ["25%", "100", "steps", "return", "-", "10", "steps/s", "eta", "0:30", "td_loss", "0.25"]
    assert lines[1].split() == [
        "50%",
        "200",
        "steps",
        "return",
        "123.5",
        "10",
        "steps/s",
        "eta",
        "0:20",
        "td_loss",
        "0.25",
    ]
    assert lines[2] == "evaluation at 200 steps: 2 (95% 1 to 3, 2 episodes)"


def test_lines_do_not_come_too_often_but_the_last_one_always_does() -> None:
    file = io.StringIO()
    display = PlainDisplay(file, LatestLosses(), interval=1000.0)
    for step in range(1, 11):
        display.on_iteration(progress(step, step / 10))
    assert [line.split()[0] for line in file.getvalue().splitlines()] == ["10%", "100%"]


def test_the_return_of_a_vector_reward_is_the_sum() -> None:
    assert mean_return({"AverageReturn/0": 1.0, "AverageReturn/1": 2.0}) == 3.0
    assert mean_return({"AverageEpisodeLength": 1.0}) is None


@pytest.mark.parametrize("plain", [True, False])
def test_a_display_is_there_only_inside_its_block(plain: bool) -> None:
    file = io.StringIO()
    agent = api.make("ppo", env="CartPole-v1", unroll_length=16, mini_batch_size=32, num_evals=1)
    trainer = agent._require_trainer()
    writer = trainer.run.writer
    with open_display(trainer, file, plain):
        agent.train(512)
    assert trainer.observers == []
    assert trainer.run.writer is writer
    text = file.getvalue()
    assert "100%" in text
    assert re.search(r"evaluation at \d+ steps", text)
    assert "loss" in text
