"""One training run of Rein as users start it, timed in steady state; `benchmarks/run.py` starts it.

    python benchmarks/workload.py sac/Hopper-v5 [--compile] [--backend sync] [--seconds 4]

The run is built from a conf of the zoo's bases by `rein.training.launch`, and trained by `Trainer.train`: nothing is
left out but evaluations, checkpoints, and the summaries of every single iteration that a run begins with. Sizes are
those of the peers' scripts.
"""

import argparse
import inspect
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from measuring import Window, calls_per_second, emit

NATURE_CNN = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
PARTS = ("env", "act", "sample", "learn")
SECTIONS = {"env": "env", "act": "act", "sample": "sample", "store": "sample", "preprocess": "sample", "learn": "learn"}


class Workload(NamedTuple):
    """A run: the base of the zoo that it is made from, and what it changes."""

    base: str
    env: Any
    settings: Mapping[str, Any]
    warm: int
    """Environment steps before the window opens."""


def ppo(env: str, **more: Any) -> Workload:
    settings = {
        "create_environment.num_parallel_environments": 8,
        "TrainerConfig.unroll_length": 128,
        "TrainerConfig.mini_batch_size": 256,
        "TrainerConfig.num_updates_per_train_iter": 4,
        "hidden_layers": (64, 64),
    }
    return Workload("ppo", env, settings | more, warm=3 * 1024)


def ppo_continuous(env: str) -> Workload:
    """A Gaussian whose deviation does not depend on the state, as the peers have it."""
    import torch

    return ppo(
        env,
        **{
            "NormalProjectionNetwork.squash_mean": False,
            "NormalProjectionNetwork.state_dependent_std": False,
            "NormalProjectionNetwork.std_transform": torch.exp,
            "NormalProjectionNetwork.std_bias_initializer_value": 0.0,
            "NormalProjectionNetwork.projection_output_init_gain": 0.01,
        },
    )


def ppo_atari(game: str) -> Workload:
    """Policy and value share the convolutions, as in the peers."""
    from rein.agents import Agent
    from rein.algorithms.on_policy import PPOAlgorithm
    from rein.algorithms.representation import EncodingAlgorithm
    from rein.networks import EncodingNetwork
    from rein.optimizers import Adam

    workload = ppo(
        f"{game}NoFrameskip-v4",
        **_atari_settings(),
        **{
            "hidden_layers": (),
            "TrainerConfig.algorithm_ctor": Agent,
            "Agent.rl_algorithm_cls": PPOAlgorithm,
            "Agent.representation_learner_cls": partial(
                EncodingAlgorithm,
                encoder_cls=partial(EncodingNetwork, conv_layer_params=NATURE_CNN, fc_layer_params=(512,)),
            ),
            "Agent.optimizer": Adam(lr=3e-4, gradient_clipping=0.5, clip_by_global_norm=True),
            "PPOAlgorithm.optimizer": None,
        },
    )
    return workload._replace(warm=1024)


def _atari_settings() -> dict[str, Any]:
    from rein.transforms import FrameStacker, ImageScaleTransformer

    return {
        "create_environment.env_kwargs": {"episodic_life": True, "clip_rewards": True},
        "TrainerConfig.data_transformer_ctor": (FrameStacker, ImageScaleTransformer),
        "ImageScaleTransformer.min": 0.0,
    }


def off_policy(base: str, env: Any, **more: Any) -> Workload:
    """Batches of 256 transitions, networks of 256x256, an update for each step after 500 steps."""
    settings = {
        "create_environment.num_parallel_environments": 1,
        "TrainerConfig.initial_collect_steps": 500,
        "TrainerConfig.mini_batch_size": 256,
        "TrainerConfig.replay_buffer_length": 1_000_000,
        "hidden_layers": (256, 256),
    }
    return Workload(base, env, settings | more, warm=650)


def _peers_epsilon() -> Any:
    """Exploration as the peers' scripts have it: over a tenth of a hundred million steps."""
    from rein.runtime import LinearScheduler

    return LinearScheduler("env_steps", ((0, 1.0), (10_000_000, 0.05)))


def dqn(env: str) -> Workload:
    settings = {
        "TrainerConfig.initial_collect_steps": 1000,
        "TrainerConfig.unroll_length": 10,
        "TrainerConfig.mini_batch_size": 128,
        "TrainerConfig.replay_buffer_length": 10_000,
        "DqnAlgorithm.target_update_period": 1000,
        "DqnAlgorithm.rollout_epsilon_greedy": _peers_epsilon(),
        "hidden_layers": (120, 84),
    }
    return Workload("dqn", env, settings, warm=2500)


def dqn_atari(game: str) -> Workload:
    from rein.networks import QNetwork

    settings = {
        **_atari_settings(),
        "TrainerConfig.initial_collect_steps": 500,
        "TrainerConfig.unroll_length": 4,
        "TrainerConfig.mini_batch_size": 32,
        "TrainerConfig.replay_buffer_length": 100_000,
        "DqnAlgorithm.target_update_period": 2500,
        "DqnAlgorithm.rollout_epsilon_greedy": _peers_epsilon(),
        "DqnAlgorithm.q_network_cls": partial(QNetwork, conv_layer_params=NATURE_CNN, fc_layer_params=(512,)),
    }
    return Workload("dqn", f"{game}NoFrameskip-v4", settings, warm=650)


class ResidentData(gym.Env[np.ndarray, np.ndarray]):
    """17 random numbers whatever the 6 actions: fills a buffer for updates without an environment."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (17,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (6,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode that never ends."""
        super().reset(seed=seed)
        return np.zeros(17, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Gives the next numbers."""
        return self.np_random.standard_normal(17).astype(np.float32), 1.0, False, False, {}


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "ppo/CartPole-v1": partial(ppo, "CartPole-v1"),
    "ppo/HalfCheetah-v5": partial(ppo_continuous, "HalfCheetah-v5"),
    "ppo/Pong": partial(ppo_atari, "Pong"),
    "sac/Pendulum-v1": partial(off_policy, "sac", "Pendulum-v1"),
    "sac/Hopper-v5": partial(off_policy, "sac", "Hopper-v5"),
    "sac/HalfCheetah-v5": partial(off_policy, "sac", "HalfCheetah-v5"),
    "td3/Hopper-v5": partial(off_policy, "td3", "Hopper-v5", random_steps=500),
    "td3/HalfCheetah-v5": partial(off_policy, "td3", "HalfCheetah-v5", random_steps=500),
    "dqn/CartPole-v1": partial(dqn, "CartPole-v1"),
    "dqn/Breakout": partial(dqn_atari, "Breakout"),
    "update/sac": partial(off_policy, "sac", ResidentData, **{"TrainerConfig.initial_collect_steps": 5000}),
    "update/td3": partial(off_policy, "td3", ResidentData, **{"TrainerConfig.initial_collect_steps": 5000}),
}


def make_trainer(workload: Workload, directory: str, backend: str, compile: bool, **more: Any) -> Any:
    """The trainer of a run as `rein train` makes it, without evaluations; call it with fresh configs in force."""
    from rein.config import install_name_resolver, pre_config
    from rein.framework import TrainerConfig
    from rein.training.launch import configure, start_run
    from rein.training.run_directory import RunDirectory
    from rein.zoo import find_algorithm

    settings = {
        "create_environment.env_name": workload.env,
        "create_environment.backend": backend,
        "TrainerConfig.num_env_steps": 100_000_000,
        "TrainerConfig.evaluate": False,
        "TrainerConfig.summarize_first_interval": False,
        "TrainerConfig.random_seed": 1,
    }
    if "compile" in inspect.signature(TrainerConfig).parameters:
        settings["TrainerConfig.compile"] = compile
    elif compile:
        raise SystemExit("TrainerConfig has no setting `compile`")
    install_name_resolver()
    pre_config({**settings, **workload.settings, **more}, place="benchmark")
    configure(find_algorithm(workload.base).path)
    return start_run(RunDirectory.create(os.path.join(directory, "run")), workload.base)


class _ClosedError(KeyboardInterrupt):
    """Ends the training as Ctrl-C would."""


class WindowObserver:
    """Shows the trainer's environment steps to a window, and ends the training when it is closed."""

    def __init__(self, window: Window) -> None:
        self.window = window

    def on_iteration(self, progress: Any) -> None:
        """Marks the window."""
        if self.window.mark(progress.env_steps):
            raise _ClosedError

    def on_evaluation(self, progress: Any, result: Any) -> None:
        """Does not happen."""


def train_until_closed(trainer: Any, window: Window) -> None:
    """Trains until the window is closed."""
    trainer.observers.append(WindowObserver(window))
    try:
        trainer.train()
    except _ClosedError:
        trainer.observers.pop()


def shares(timers: Any, seconds: float) -> dict[str, float]:
    """Shares of `seconds` by part, from the sections of a run's timers; what no section says is `other`."""
    spent = dict.fromkeys(PARTS, 0.0)
    for path, section in timers.stats().items():
        part = SECTIONS.get(path.rsplit("/", 1)[-1])
        if part is not None:
            spent[part] += section.own_seconds
    found = {part: spent[part] / seconds for part in PARTS}
    return {**found, "other": max(0.0, 1.0 - sum(found.values()))}


class Warnings(logging.Handler):
    """Keeps what Rein warns of, such as an update that is not compiled."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        logging.getLogger("rein").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a message."""
        self.texts.append(record.getMessage())


def measure(name: str, backend: str, compile: bool, seconds: float, settle: float = 0.0) -> None:
    """Times a workload in this process and prints a result line."""
    from rein.config import fresh_configs
    from rein.runtime import summary

    workload, warnings = WORKLOADS[name](), Warnings()
    with tempfile.TemporaryDirectory(prefix="rein-benchmark-") as directory, fresh_configs():
        trainer = make_trainer(workload, directory, backend, compile)
        timers = trainer.run.timers
        settle = settle or (0.5 if compile else 0.0)
        if name.startswith("update/"):
            train_until_closed(trainer, Window(5000, 0.01, 1))
            # Outside of `Trainer.train` every update would be summarized, instead of one in a thousand.
            with trainer.run, summary.record_if(lambda: False):
                window = calls_per_second(trainer.algorithm.train_from_replay_buffer, seconds, 20, settle)
            emit(name, "updates/s", **window.result(), notes=warnings.texts)
        else:
            window = Window(workload.warm, seconds, settle=settle, on_open=timers.reset)
            train_until_closed(trainer, window)
            emit(
                name,
                "env steps/s",
                **window.result(),
                shares=shares(timers, window.seconds),
                backend=type(trainer.env).__name__,
                notes=warnings.texts,
            )
        trainer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=list(WORKLOADS))
    parser.add_argument("--backend", default="auto", help="of the environment; `sync` steps Gymnasium's own")
    parser.add_argument("--compile", action="store_true", help="set TrainerConfig.compile")
    parser.add_argument("--seconds", type=float, default=4.0, help="of timing")
    parser.add_argument("--settle", type=float, default=0.0, help="seconds; wait for two such stretches that agree")
    arguments = parser.parse_args()
    measure(arguments.name, arguments.backend, arguments.compile, arguments.seconds, arguments.settle)


if __name__ == "__main__":
    main()
