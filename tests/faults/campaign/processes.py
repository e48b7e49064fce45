"""Runs of every kind as processes that can be killed: forked from one that has imported everything, or started afresh."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

SMALL = [
    "create_environment.num_parallel_environments=2",
    "create_environment.backend=sync",
    "TrainerConfig.unroll_length=8",
    "TrainerConfig.evaluate=False",
    "TrainerConfig.num_checkpoints=1000",
    "TrainerConfig.num_env_steps=200000",
]
BATCHES = "TrainerConfig.mini_batch_size=16"
DATA = "expert.data"
SIX = ("ppo", "a2c", "sac", "dqn", "td3", "ppg")
"""Algorithms that learn in an environment, in one process."""
OTHERS = ("bc", "iql", "mbrl_cem", "muzero", "hypernetwork", "process", "ray")
"""What learns otherwise: from data, with a model, by search, from labelled data, with workers."""

_PPO = ["--algorithm", "ppo", "--env", "CartPole-v1", *SMALL, BATCHES]
_RUNS: dict[str, list[str]] = {
    "ppo": _PPO,
    "a2c": ["--algorithm", "a2c", "--env", "CartPole-v1", *SMALL],
    "sac": ["--algorithm", "sac", "--env", "Pendulum-v1", *SMALL],
    "dqn": ["--algorithm", "dqn", "--env", "CartPole-v1", *SMALL],
    "td3": ["--algorithm", "td3", "--env", "Pendulum-v1", *SMALL],
    "ppg": ["--algorithm", "ppg", "--env", "CartPole-v1", *SMALL, BATCHES],
    "bc": ["--algorithm", "bc", "--data", DATA, "TrainerConfig.num_checkpoints=1000"],
    "causal_bc": ["--algorithm", "causal_bc", "--data", DATA, "TrainerConfig.num_checkpoints=1000"],
    "iql": ["--algorithm", "iql", "--data", DATA, "TrainerConfig.num_checkpoints=1000"],
    "mbrl_cem": ["--algorithm", "mbrl_cem", "--env", "Pendulum-v1", *SMALL, "population=20", "horizon=5"],
    "muzero": [
        "--algorithm",
        "muzero",
        "--env",
        "CartPole-v1",
        *SMALL,
        BATCHES,
        "create_control_mcts.num_simulations=4",
    ],
    "hypernetwork": ["hypernetwork_digits", "TrainerConfig.num_iterations=1000", "TrainerConfig.num_checkpoints=500"],
    "process": [*_PPO, "--scheme", "sync", "--collectors", "2", "--backend", "process"],
    "ray": [*_PPO, "--scheme", "sync", "--collectors", "2", "--backend", "ray"],
}


def train_arguments(kind: str, run: Path, *settings: str) -> list[str]:
    """Arguments of `rein` that begin a run; data that it needs is beside the run and made if need be.

    Args:
        kind: of the run.
        run: its directory.
        *settings: `name=value`, in the place of what it has otherwise.
    """
    replaced = tuple(setting.partition("=")[0] + "=" for setting in settings)
    given = [one for one in _RUNS[kind] if not replaced or not one.startswith(replaced)]
    if DATA in given:
        make_data(run.parent / DATA)
        given[given.index(DATA)] = str(run.parent / DATA)
    return ["train", *given, *settings, "--dir", str(run)]


def make_data(path: Path) -> None:
    """Records a few episodes of chance."""
    if path.exists():
        return
    import rein
    from rein.training.recording import Manner, record_episodes

    agent = rein.make("sac", env="Pendulum-v1", seed=0)
    record_episodes(agent.policy, path, 5, Manner("random"))
    agent.close()


class Process:
    """A process that runs a function, forked from one in which all that runs need is imported."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._process = context().Process(target=_quietly, args=(function, *arguments))
        self._process.start()

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code; negative after a signal, None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Sends a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kills it, and waits for its end."""
        self._process.kill()
        self._process.join()

    def wait(self, seconds: float) -> int | None:
        """Waits at most so long; the exit code, if it ended."""
        self._process.join(seconds)
        return self._process.exitcode


@cache
def context() -> ForkServerContext:
    """Forks processes from one that has imported what runs need."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["tests.faults.campaign.preload"])
    return found


def _quietly(function: Callable[..., Any], *arguments: Any) -> None:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    code = function(*arguments)
    sys.exit(code if isinstance(code, int) else 0)


def _command(arguments: Sequence[str]) -> int:
    from rein.cli import main

    return main(list(arguments))


def start(arguments: Sequence[str]) -> Process:
    """Starts `rein` with these arguments."""
    return Process(_command, list(arguments))


def wait_for(condition: Callable[[], Any], seconds: float = 180.0) -> bool:
    """Whether a condition became true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def descendants(pid: int) -> list[int]:
    """All processes below one."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
    children = [int(line) for line in found.split()]
    return children + [below for child in children for below in descendants(child)]


def is_alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def end_all(pids: Sequence[int]) -> None:
    """Kills what a killed run left behind in cleaning up after itself."""
    for pid in pids:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def newest(run: Path) -> int | None:
    """The step of the newest whole checkpoint of a run."""
    from rein.runtime.checkpoint import Checkpointer

    return Checkpointer(run / "checkpoints").latest_step() if (run / "checkpoints").is_dir() else None
