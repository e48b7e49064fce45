"""What a user gets from `rein train --algorithm A --env E` with nothing set, beside the defaults of Stable-Baselines3.

Every algorithm that learns in an environment is trained on a few small tasks that fit its actions. The figures of a library
are one JSON file under `docs/results/defaults/`; `docs/defaults.md` is made from them and never edited by hand.
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rein.config.names import did_you_mean
from rein.training.hardware import describe_machine
from rein.zoo.side_by_side import Job, train_side_by_side
from rein.zoo.verification import evaluate_run

FIGURES = Path("docs/results/defaults")


class Task(NamedTuple):
    """What defaults are tried on."""

    env: str
    env_steps: int
    solved: float
    """A mean return from which the task counts as solved."""
    is_discrete: bool


TASKS = (
    Task("CartPole-v1", 50_000, 475, True),
    Task("Acrobot-v1", 100_000, -100, True),
    Task("MountainCar-v0", 100_000, -120, True),
    Task("LunarLander-v3", 100_000, 200, True),
    Task("Pendulum-v1", 20_000, -200, False),
    Task("MountainCarContinuous-v0", 50_000, 90, False),
    Task("InvertedPendulum-v5", 20_000, 950, False),
    Task("Reacher-v5", 50_000, -6, False),
)
DISCRETE = ("a2c", "apex", "ddqn", "dqn", "impala", "ppg", "ppo", "r2d2", "sac", "trac")
CONTINUOUS = (
    *("a2c", "ddpg", "impala", "mdq", "mpo", "oac", "ppg", "ppo", "qrsac", "sac", "sarsa"),
    *("taac", "taacl", "taacq", "td3", "trac"),
)
LEFT_OUT = {
    "mbrl_cem": "plans at every step: hours for each task; its entries of the zoo show what it reaches",
    "mbrl_latent": "as mbrl_cem",
    "mbrl_shooting": "as mbrl_cem",
    "merlin": "is for tasks that need a memory",
    "muzero": "searches at every step: hours for each task; its entries of the zoo show what it reaches",
}
"""Algorithms that learn in an environment and are not tried, with the reason."""


class Pair(NamedTuple):
    """An algorithm and a task."""

    algorithm: str
    task: Task

    @property
    def name(self) -> str:
        """As it is written on the command line."""
        return f"{self.algorithm}/{self.task.env}"


def pairs(names: Iterable[str] = ()) -> list[Pair]:
    """All pairs, or those that are named by an algorithm, by `ALGORITHM/ENV` or by an environment."""
    every = [
        Pair(algorithm, task)
        for algorithm in sorted({*DISCRETE, *CONTINUOUS})
        for task in TASKS
        if algorithm in (DISCRETE if task.is_discrete else CONTINUOUS)
    ]
    names = list(names)
    known = sorted({word for pair in every for word in (pair.algorithm, pair.task.env, pair.name)})
    for name in names:
        if name not in known:
            reason = f" ({LEFT_OUT[name]})" if name in LEFT_OUT else ""
            raise ValueError(f"no defaults are tried for {name!r}{reason}. {did_you_mean(name, known)}".strip())
    return [pair for pair in every if not names or {pair.algorithm, pair.task.env, pair.name} & set(names)]


def verify_defaults(
    pair: Pair, seeds: Sequence[int], work: Path, episodes: int, at_once: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Trains a pair with nothing set but the seed, the number of steps and no evaluation on the way; returns its figures.

    Args:
        pair: what to train.
        seeds: one run each.
        work: directory for the runs; those that are there already are gone on with.
        episodes: held-out ones for each seed.
        at_once: runs side by side.
        say: told what happens.
    """
    algorithm, task = pair
    directory = work / "defaults" / f"{algorithm}-{task.env}"
    jobs = [
        Job(
            f"seed {seed} of {pair.name}",
            directory / f"seed-{seed}",
            _words(pair, seed),
            f"rein verify --defaults {pair.name}",
        )
        for seed in seeds
    ]
    train_side_by_side(jobs, at_once, say=say)
    machine = describe_machine()
    return {
        "algorithm": algorithm,
        "env": task.env,
        "env_steps": task.env_steps,
        "episodes": episodes,
        "seeds": [
            {"seed": seed, "mean_return": float(evaluate_run(job.path, episodes)["mean_return"])}
            for seed, job in zip(seeds, jobs, strict=True)
        ],
        "versions": {"rein": machine["rein"], "commit": machine["commit"], **machine["packages"]},
        "date": time.strftime("%Y-%m-%d"),
    }


def _words(pair: Pair, seed: int) -> list[str]:
    settings = [f"TrainerConfig.num_env_steps={pair.task.env_steps}", "TrainerConfig.evaluate=False"]
    return ["--algorithm", pair.algorithm, "--env", pair.task.env, *settings, "--seed", str(seed)]


def read_figures(library: str, directory: Path = FIGURES) -> dict[str, dict[str, Any]]:
    """The figures of a library, by the name of the pair."""
    path = directory / f"{library}.json"
    found = json.loads(path.read_text()) if path.exists() else []
    return {f"{one['algorithm']}/{one['env']}": one for one in found}
