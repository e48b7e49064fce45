"""Recording data sets: episodes that a policy plays, or what the replay buffer of a run holds."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rein import nest
from rein.config import use_configs
from rein.data_structures import StepType, TimeStep
from rein.envs import Environment
from rein.framework.acting.actor import Actor, without_learning
from rein.nest import Nest
from rein.replay.datasets import DataSetError, DataSetWriter
from rein.replay.datasets.episodes import make_episode
from rein.replay.datasets.from_replay import episodes_of_replay
from rein.replay.datasets.manifest import Specs
from rein.runtime.checkpoint import Checkpointer
from rein.runtime.run import Run
from rein.runtime.seeding import get_rng_state, set_rng_state, spawn_seeds
from rein.specs import BoundedTensorSpec
from rein.training.launch import env_name
from rein.training.policy import Policy
from rein.training.run_directory import RunDirectory

_MOST_ENVIRONMENTS = 10


class Manner(NamedTuple):
    """How a policy is played for a recording."""

    kind: str
    """One of `KINDS`."""
    noise: float = 0.0
    """Deviation as a share of half of the range of an action; for discrete actions the chance of a random one."""

    @classmethod
    def parse(cls, text: str) -> "Manner":
        """Reads "stochastic", "deterministic", "random", "noise=0.1" or "lasting_noise=0.1"."""
        kind, equals, number = text.partition("=")
        needs_number = kind in ("noise", "lasting_noise")
        try:
            if kind in KINDS and bool(equals) == needs_number:
                manner = cls(kind, float(number) if needs_number else 0.0)
                if manner.noise >= 0.0:
                    return manner
        except ValueError:
            pass
        raise ValueError(
            f"policy {text!r} is unknown: give stochastic, deterministic, random, noise=0.1 or lasting_noise=0.1"
        )

    def __str__(self) -> str:
        return f"{self.kind}={self.noise:g}" if self.noise else self.kind


KINDS = {
    "stochastic": "as it acts to collect: samples, with its exploration",
    "deterministic": "as it acts in evaluation",
    "random": "uniformly random actions",
    "noise": "deterministic, with noise that is new at every step",
    "lasting_noise": "deterministic, with noise of which each draw lasts for two steps",
}


class Recorded(NamedTuple):
    """A data set that was recorded."""

    path: Path
    episodes: int
    transitions: int
    returns: NDArray[np.float64]
    """[episodes], or [episodes, D] for a vector reward."""


def record_episodes(
    policy: Policy,
    path: str | os.PathLike[str],
    num_episodes: int,
    manner: Manner,
    seed: int = 0,
    overwrite: bool = False,
    run_name: str = "",
) -> Recorded:
    """Plays whole episodes and writes them as a data set; every environment contributes its first ones.

    Args:
        policy: who plays.
        path: of the file.
        num_episodes: how many.
        manner: how it is played.
        seed: of episodes and actions, which are neither those of training nor of evaluation.
        overwrite: replace a file that is there.
        run_name: of the run, for the record.
    """
    if num_episodes < 1:
        raise ValueError(f"recording {num_episodes} episodes is impossible: give at least 1")
    env_seed, action_seed = spawn_seeds(policy.seed, 2, f"record {seed}")
    env = policy.make_environment(min(num_episodes, _MOST_ENVIRONMENTS), env_seed)
    random_state = get_rng_state()
    try:
        with env, Run(seed=policy.seed), without_learning(policy.algorithm):
            torch.manual_seed(action_seed)
            writer = DataSetWriter(path, env.observation_spec, env.action_spec, env.reward_spec, overwrite)
            with writer:
                writer.add_source(_facts(policy, run_name, policy=str(manner), seed=seed))
                returns = _play(policy, env, writer, num_episodes, manner)
    finally:
        set_rng_state(random_state)
    return Recorded(writer.path, num_episodes, writer.num_steps - num_episodes, np.array(returns))


def record_replay(
    policy: Policy, directory: RunDirectory, path: str | os.PathLike[str], overwrite: bool = False
) -> Recorded:
    """Writes what the replay buffer of a run held at its checkpoint as a data set.

    Args:
        policy: of the run, loaded from the checkpoint.
        directory: of the run.
        path: of the file.
        overwrite: replace a file that is there.
    """
    components = Checkpointer(directory.checkpoints).load(policy.checkpoint).components
    if "replay_buffer" not in components:
        raise DataSetError(f"{directory.path} has no replay buffer: record episodes instead, with --episodes N")
    with policy.make_environment(1, policy.held_out_seed()) as env:
        specs = Specs(env.observation_spec, env.action_spec, env.reward_spec)
    with DataSetWriter(path, *specs, overwrite=overwrite) as writer:
        writer.add_source(_facts(policy, directory.path.name, policy="replay buffer"))
        returns = []
        for episode in episodes_of_replay(components["replay_buffer"], specs):
            writer.add_episode(episode)
            returns.append(episode.reward.double().sum(0).numpy())
    return Recorded(writer.path, writer.num_episodes, writer.num_steps - writer.num_episodes, np.array(returns))


def _facts(player: Policy, run_name: str, **more: Any) -> dict[str, Any]:
    with use_configs(player.configs):
        env = env_name()
    algorithm = type(player.algorithm).__name__
    return {"run": run_name, "algorithm": algorithm, "env": env, "checkpoint": player.checkpoint, **more}


def _play(policy: Policy, env: Environment, writer: DataSetWriter, num_episodes: int, manner: Manner) -> list[Any]:
    """Plays until enough episodes are written; returns their returns."""
    batch = env.batch_size
    quota = [num_episodes // batch + (index < num_episodes % batch) for index in range(batch)]
    purpose: Any = "rollout" if manner.kind == "stochastic" else "predict"
    actor = Actor(policy.algorithm, env.action_spec, batch, purpose)
    noise = _Noise(manner, env.action_spec)
    open_episodes: list[list[TimeStep]] = [[] for _ in range(batch)]
    returns = []
    time_step = env.reset()
    while True:
        seen = nest.map_structure(torch.clone, time_step._replace(untransformed=(), env_info=()))
        for index, steps in enumerate(open_episodes):
            steps.append(nest.map_structure(lambda leaf, at=index: leaf[at], seen))
            if int(seen.step_type[index]) == StepType.LAST:
                if quota[index]:
                    quota[index] -= 1
                    episode = make_episode(steps)
                    writer.add_episode(episode)
                    returns.append(episode.reward.double().sum(0).numpy())
                steps.clear()
        if not any(quota):
            return returns
        action = actor.act(time_step).action
        time_step = env.step(actor.bounds.clip(noise.disturb(action, seen.is_first())))


class _Noise:
    """Changes actions as a manner says."""

    def __init__(self, manner: Manner, action_spec: Nest) -> None:
        self._manner = manner
        self._specs: list[BoundedTensorSpec] = nest.flatten(action_spec)
        self._before: list[Tensor | None] = [None] * len(self._specs)

    def disturb(self, action: Nest, is_first: Tensor) -> Nest:
        """Actions [B, ...] with noise; at first steps [B] nothing is left from before."""
        if self._manner.kind in ("stochastic", "deterministic"):
            return action
        leaves = [self._one(index, leaf, is_first) for index, leaf in enumerate(nest.flatten(action))]
        return nest.pack_sequence_as(action, leaves)

    def _one(self, index: int, action: Tensor, is_first: Tensor) -> Tensor:
        spec, manner = self._specs[index], self._manner
        if manner.kind == "random":
            return spec.sample(action.shape[:1])
        if spec.is_discrete:
            chosen = nest.expand_dims_as(torch.rand(action.shape[0]) < manner.noise, action)
            return torch.where(chosen, spec.sample(action.shape[:1]), action)
        half = torch.from_numpy((spec.maximum.astype(np.float64) - spec.minimum) / 2).to(action.dtype)
        fresh = manner.noise * half * torch.randn_like(action)
        noise, before = fresh, self._before[index]
        if manner.kind == "lasting_noise" and before is not None:
            noise = fresh + torch.where(nest.expand_dims_as(is_first, before), 0.0, before)
        self._before[index] = fresh
        return action + noise
