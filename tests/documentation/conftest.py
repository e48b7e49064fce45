"""Trainings of the pages, cut short: the tests show that what is written works, not that it learns."""

from collections.abc import Callable
from typing import Any

import pytest

from rein.api import AgentHandle
from rein.training import launch

ENV_STEPS, ITERATIONS, UPDATES, EPISODES = 600, 2, 8, 2


@pytest.fixture
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few environment steps, updates and evaluation episodes, whatever a page asks for."""
    make, train, evaluate = launch.TrainerConfig, AgentHandle.train, AgentHandle.evaluate

    def shortened(**arguments: Any) -> Any:
        settings = make(**arguments)
        settings.num_env_steps = min(settings.num_env_steps, ENV_STEPS)
        if not settings.num_env_steps:  # learns from data alone
            settings.num_iterations = min(settings.num_iterations, ITERATIONS)
        settings.initial_collect_steps = min(settings.initial_collect_steps, ENV_STEPS // 2)
        settings.num_eval_episodes = 1
        return settings

    def train_shortly(self: AgentHandle, num_env_steps: int | None = None, *args: Any, **options: Any) -> Any:
        if options.get("updates"):
            options["updates"] = UPDATES
        return train(self, None if num_env_steps is None else min(num_env_steps, ENV_STEPS), *args, **options)

    monkeypatch.setattr(launch, "TrainerConfig", shortened)
    monkeypatch.setattr(AgentHandle, "train", train_shortly)
    monkeypatch.setattr(AgentHandle, "evaluate", _few_episodes(evaluate))


def _few_episodes(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, num_episodes=EPISODES, **options: evaluate(self, min(num_episodes, EPISODES), **options)
