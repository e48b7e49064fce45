"""Ranks: whole trainers in processes of their own, whose gradients are averaged by `torch.distributed`.

Rank 0 is the process of the run. Every rank has environments, rollouts and a replay buffer of its own, and a share of each
minibatch, so that k ranks together make the updates of one trainer with k times as many environments.
"""

import contextlib
import logging
import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from rein import nest
from rein.config import use_configs
from rein.config.sending import configs_to_send
from rein.data_structures import TimeStep
from rein.distributed.backends import WorkerGoneError
from rein.distributed.backends.process import ProcessBackend, ProcessWorker
from rein.distributed.collector import Tape
from rein.distributed.counters import counters_now, running
from rein.distributed.metrics import GroupedMetrics
from rein.distributed.scheme import Scheme
from rein.envs import Environment, create_environment
from rein.envs.metrics import EpisodeMetrics
from rein.framework import OfflineData, ReplayTraining, RLAlgorithm
from rein.framework.acting.rollout import Rollout
from rein.framework.algorithm import Algorithm
from rein.framework.updating.data_parallel import broadcast
from rein.framework.updating.settings import UpdateSettings
from rein.replay.ring_buffer import RingBuffer
from rein.runtime import Run
from rein.runtime.processes.sending import pack, unpack

logger = logging.getLogger(__name__)

STAYS_HERE = (Environment, RingBuffer, ReplayTraining, Rollout, EpisodeMetrics, OfflineData)
"""What workers have of their own, or not at all."""


class RankTask(NamedTuple):
    """What a rank is made of; it travels once."""

    copy: bytes
    """Packed: the configuration in force, and the algorithm with its optimizers."""
    rank: int
    ranks: int
    meeting_place: str
    """A file by which the ranks find each other."""
    env_seed: int
    seed: int
    device: str
    timeout: float

    def make(self) -> "Rank":
        """The rank, in a process of its own."""
        torch.set_num_threads(1)
        configs, _ = unpack(self.copy)
        with use_configs(configs):
            run = Run(seed=self.seed, device=self.device)
            with run:
                run.seed_everything()
                return self.make_here(run)

    def make_here(self, run: Run | None = None) -> "Rank":
        """The rank, with the configuration and the run that are in force."""
        _, algorithm = unpack(self.copy)
        env = create_environment(seed=self.env_seed)
        join(self.meeting_place, self.rank, self.ranks, self.device, self.timeout)
        return Rank(algorithm, env, self.rank, self.ranks, run)


class Rank:
    """A trainer that does what rank 0 does."""

    def __init__(self, algorithm: RLAlgorithm, env: Environment, rank: int, ranks: int, run: Run | None) -> None:
        """Takes the parameters of rank 0.

        Args:
            algorithm: a copy that is this rank's own.
            env: likewise.
            rank: number of this rank.
            ranks: how many there are.
            run: of this process.
        """
        self._algorithm, self._env, self._run = algorithm, env, run
        self._tape = _CountingTape()
        algorithm._env, algorithm._metrics = env, self._tape  # type: ignore[assignment]
        share_batches(algorithm, ranks)
        algorithm.activate_ddp(rank)

    def iterate(self, counters: Mapping[str, float], with_statistics: bool) -> tuple[TimeStep, Any]:
        """One iteration; returns what metrics need of its episodes and, if asked for, statistics of the parameters."""
        with running(self._run, counters):
            self._algorithm.train_iter()
        broadcast(self._algorithm)
        return self._tape.take_episodes(), self._algorithm.compute_paras_statistics() if with_statistics else None

    def close(self) -> None:
        """Closes the environments."""
        self._env.close()


class _CountingTape(Tape):
    """Episodes for the metrics of rank 0; whether a run is over is decided there."""

    environment_steps = 0


class Ranks:
    """The other ranks, as rank 0 sees them: they iterate when it does."""

    def __init__(self, algorithm: RLAlgorithm, scheme: Scheme, seeds: list[int], device: str) -> None:
        """Takes the place of `train_iter`; processes are started by the first one, from what was restored until then.

        Args:
            algorithm: the root algorithm.
            scheme: says how many.
            seeds: two for each rank.
            device: where they compute.
        """
        env, config = algorithm.env, algorithm.require_config()
        assert env is not None
        self._algorithm, self._scheme, self._seeds, self._device = algorithm, scheme, seeds, device
        self._check_interval = config.ddp_paras_check_interval
        self._iterations = self.restarts = 0
        self._backend: ProcessBackend | None = None
        self._workers: list[ProcessWorker] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.envs_per_iteration = env.batch_size * scheme.ranks
        self._metrics = _RankMetrics(algorithm.metrics.window, scheme.ranks)
        algorithm._metrics = self._metrics
        share_batches(algorithm, scheme.ranks)
        self._iterate_here = algorithm.train_iter
        algorithm.train_iter = self.train_iter  # type: ignore[method-assign]
        close = algorithm.close_rollout

        def close_all() -> None:
            self.close()
            close()

        algorithm.close_rollout = close_all  # type: ignore[method-assign]

    def train_iter(self) -> int:
        """One iteration of all ranks; when one dies, all others are started anew from what rank 0 has."""
        while True:
            try:
                return self._train_iter()
            except (WorkerGoneError, RuntimeError) as error:
                self._raise_what_a_rank_raised()
                is_gone = isinstance(error, WorkerGoneError) or "timed out" in str(error).lower()
                is_gone = is_gone or any(not one.process.is_alive() for one in self._workers)
                if not is_gone or self.restarts >= self._scheme.max_restarts:
                    raise
                self.restarts += 1
                logger.warning("a rank has died (%s): all are started anew", str(error).splitlines()[0])
                self.close()

    def _raise_what_a_rank_raised(self) -> None:
        """Others only see that it does not take part any more."""
        assert self._backend is not None
        for worker in self._workers:
            with contextlib.suppress(WorkerGoneError):
                if self._backend.wait([worker], 0.0):
                    self._backend.answer(worker)

    def _train_iter(self) -> int:
        if self._backend is None:
            self._start()
        assert self._backend is not None
        counters = counters_now()
        self._iterations += 1
        checks = self._check_interval > 0 and self._iterations % self._check_interval == 0
        for worker in self._workers:
            self._backend.ask(worker, "iterate", counters, checks)
        trained = self._iterate_here()
        broadcast(self._algorithm)
        for rank, worker in enumerate(self._workers, 1):
            if not self._backend.wait([worker], self._scheme.timeout):
                raise WorkerGoneError(f"rank {rank} gave no answer for {self._scheme.timeout:g} s")
            episodes, statistics = self._backend.answer(worker)
            self._metrics.update_group(rank, episodes)
            if statistics is not None:
                self._compare(rank, statistics)
        return trained * self._scheme.ranks

    def _compare(self, rank: int, statistics: dict[str, Any]) -> None:
        for name, own in self._algorithm.compute_paras_statistics().items():
            if not np.array_equal(own, statistics[name]):
                raise ValueError(f"{name} of rank {rank} is not that of rank 0: {statistics[name]} against {own}")

    def _start(self) -> None:
        count, scheme = self._scheme.ranks, self._scheme
        self._folder = tempfile.TemporaryDirectory(prefix="rein-ranks-")
        place = str(Path(self._folder.name) / "meeting")
        _without_means(self._algorithm)
        patched = {name: self._algorithm.__dict__.pop(name) for name in ("train_iter", "close_rollout")}
        try:
            copy = pack(
                (configs_to_send(), self._algorithm), f"{self._algorithm.name} and its settings", "", STAYS_HERE
            )
        finally:
            self._algorithm.__dict__.update(patched)
        self._backend = ProcessBackend(64)
        seeds = [seed + 7919 * self.restarts for seed in self._seeds]
        for rank in range(1, count):
            pair = (seeds[2 * rank], seeds[2 * rank + 1])
            task = RankTask(copy, rank, count, place, *pair, self._device, scheme.timeout)
            self._workers.append(self._backend.start(task))
        join(place, 0, count, self._device, scheme.timeout)
        self._algorithm.activate_ddp(0)

    def close(self) -> None:
        """Ends the other ranks."""
        _without_means(self._algorithm)
        if self._backend is not None:
            self._backend.close()
        if dist.is_initialized():
            with contextlib.suppress(RuntimeError):
                dist.destroy_process_group()
        if self._folder is not None:
            self._folder.cleanup()
        self._backend, self._workers, self._folder = None, [], None


class _RankMetrics(GroupedMetrics):
    """Metrics of all ranks; rank 0 reports as if it were alone."""

    _is_in_group = False

    def update(self, time_step: TimeStep) -> None:
        """Takes in a step of rank 0, or of the group that `update_group` has chosen, [B, ...]."""
        if self._is_in_group:
            super().update(time_step)
        else:
            self.update_group(0, nest.map_structure(lambda tensor: tensor.unsqueeze(0), time_step))

    def update_all(self, time_steps: TimeStep) -> None:
        """Takes in steps of rank 0, or of the group that `update_group` has chosen, [T, B, ...]."""
        if self._is_in_group:
            super().update_all(time_steps)
        else:
            self.update_group(0, time_steps)

    def update_group(self, group: int, time_steps: TimeStep) -> None:
        """Takes in steps of a rank, [T, B, ...]."""
        self._is_in_group = True
        try:
            super().update_group(group, time_steps)
        finally:
            self._is_in_group = False


def share_batches(algorithm: RLAlgorithm, ranks: int) -> None:
    """Gives a rank its share of every minibatch."""
    settings = UpdateSettings.of(algorithm.require_config())
    if settings.mini_batch_size is not None:
        settings = replace(settings, mini_batch_size=settings.mini_batch_size // ranks)
    algorithm.set_update_settings(settings)
    algorithm.learning.transformer = algorithm.data_transformer


def join(place: str, rank: int, ranks: int, device: str, timeout: float) -> None:
    """Makes this process a rank of the group that meets at a file; returns when all are there."""
    # Nothing listens beyond this machine.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    kind = "nccl" if device.startswith("cuda") else "gloo"
    store = dist.FileStore(place, ranks)  # type: ignore[attr-defined]
    dist.init_process_group(kind, store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=timeout))


def _without_means(algorithm: RLAlgorithm) -> None:
    for module in algorithm.modules():
        if isinstance(module, Algorithm):
            module._gradient_mean = None
