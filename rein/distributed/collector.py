"""The collector: a copy of the algorithm that acts in environments of its own."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rein import nest
from rein.config import use_configs
from rein.data_structures import Experience, TimeStep
from rein.distributed.counters import running
from rein.distributed.fragments import Fragment
from rein.distributed.weights import Weights
from rein.distributions import distributions_to_params, extract_spec, map_params, params_to_distributions
from rein.envs import Environment, create_environment
from rein.framework import RLAlgorithm
from rein.framework.acting.rollout import Rollout
from rein.nest import Nest
from rein.runtime import Run
from rein.runtime.processes.sending import unpack
from rein.runtime.seeding import seed_everything


class CollectJob(NamedTuple):
    """What the updater asks of a collector."""

    number: int
    length: int
    """Steps of each environment."""
    least: int
    """Steps after which it may end early, if it is told to."""
    counters: dict[str, float]
    """See `counters_now`."""
    extra_states: dict[int, Any]
    """What modules keep beside tensors."""


class CollectorTask(NamedTuple):
    """What a collector is made of; it travels once."""

    copy: bytes
    """Packed: the configuration in force, and the algorithm."""
    worker: int
    env_seed: int
    seed: int
    device: str
    exploration: float | None = None
    """Rate of exploration that is this collector's own; None leaves it as it is."""

    def make(self) -> "Collector":
        """The collector, in a process of its own: random numbers are seeded."""
        torch.set_num_threads(1)
        configs, _ = unpack(self.copy)
        with use_configs(configs):
            run = Run(seed=self.seed, device=self.device)
            with run:
                run.seed_everything()
                return self.make_here(run)

    def make_here(self, run: Run | None = None) -> "Collector":
        """The collector, with the configuration and the run that are in force."""
        _, algorithm = unpack(self.copy)
        if self.exploration is not None:
            algorithm.explore_at(self.exploration)
        return Collector(algorithm, create_environment(seed=self.env_seed), self.worker, run)


class Collector:
    """Acts, fragment by fragment."""

    def __init__(self, algorithm: RLAlgorithm, env: Environment, index: int, run: Run | None) -> None:
        """Begins where the environments stand.

        Args:
            algorithm: a copy that is this collector's own.
            env: likewise.
            index: number among the collectors; 0 keeps statistics for all.
            run: of a process of its own; None where it shares that of the updater.
        """
        self._algorithm, self._env, self._index, self._run = algorithm, env, index, run
        self._weights = Weights(algorithm)
        self._rollout = algorithm._rollout = Rollout(algorithm, env)
        self._tape = Tape()
        self.stop_number: Callable[[], int] = lambda: -1
        """Up to which number jobs are to end early."""
        algorithm._metrics = self._tape  # type: ignore[assignment]
        algorithm.observe_for_replay = self._tape.keep_step  # type: ignore[method-assign]
        algorithm.observe_rollout_for_replay = self._tape.keep_rollout  # type: ignore[method-assign]

    def collect(self, job: CollectJob, flat: NDArray[np.uint8] | None, version: int) -> Fragment:
        """A fragment with given weights.

        Args:
            job: from the updater.
            flat: weights to take over; None keeps those that there are.
            version: of the weights.
        """
        if flat is not None:
            self._weights.load(flat, with_acting=self._index > 0)
            self._weights.state.load_extra_states(job.extra_states)
        with running(self._run, job.counters):
            experience = self._collect(job)
        info_spec = extract_spec(experience.rollout_info, from_dim=2)
        experience = experience._replace(rollout_info=distributions_to_params(experience.rollout_info))
        buffers = {}
        if self._index == 0:
            self._weights.state.notice_changes()
            everything = self._weights.state.buffers()
            buffers = {index: everything[index].clone() for index in self._weights.state.changed_by_acting}
        return Fragment(self._index, job.number, version, experience, info_spec, self._tape.take_episodes(), buffers)

    def _collect(self, job: CollectJob) -> Experience:
        parts: list[Experience] = []
        is_fresh = self._algorithm.require_config().trains_on_fresh_rollouts
        with torch.no_grad():
            for length in self._lengths(job):
                if is_fresh:
                    parts.append(self._rollout.collect(length, with_grad=False))
                else:
                    self._rollout.collect_for_replay(length, with_grad=False)
        return _joined(parts) if is_fresh else self._tape.take_steps()

    def _lengths(self, job: CollectJob) -> Iterator[int]:
        """The steps of a job, in pieces if it may end early."""
        if job.least >= job.length:
            yield job.length
            return
        done, piece = 0, max(1, min(job.least, job.length // 8))
        while done < job.length and not (done >= job.least and self.stop_number() >= job.number):
            # The first piece is the least that is wanted.
            length = min(max(job.least, 1) if done == 0 else piece, job.length - done)
            done += length
            yield length

    def save(self) -> dict[str, Any]:
        """Where the collector stands, to go on exactly."""
        state = {"rollout": self._rollout.state_dict()}
        return state if self._run is None else {**state, "run": self._run.state_dict()}

    def restore(self, state: dict[str, Any] | None, seed: int) -> None:
        """Goes to where `save` was called, or with None to new episodes, which no other `seed` has."""
        if state is None:
            self._env.seed(seed)
            self._env.reset()
            if self._run is not None:
                seed_everything(seed)
            return
        self._rollout.load_state_dict(state["rollout"])
        if self._run is not None:
            self._run.load_state_dict(state["run"])

    def close(self) -> None:
        """Closes the environments."""
        self._env.close()


class Tape:
    """Stands where metrics and replay buffer are, and keeps what they would get."""

    def __init__(self) -> None:
        """Is empty."""
        self._episodes: list[TimeStep] = []
        self._steps: list[Experience] = []

    def update(self, time_step: TimeStep) -> None:
        """See `EpisodeMetrics`."""
        self._episodes.append(nest.map_structure(lambda tensor: tensor.clone().unsqueeze(0), _of_episodes(time_step)))

    def update_all(self, time_steps: TimeStep) -> None:
        """See `EpisodeMetrics`."""
        self._episodes.append(nest.map_structure(torch.clone, _of_episodes(time_steps)))

    def keep_step(self, exp: Experience) -> None:
        """Keeps a step, [B, ...]."""
        self._steps.append(map_params(lambda tensor: tensor.clone().unsqueeze(0), _without_buffers(exp)))

    def keep_rollout(self, exp: Experience) -> None:
        """Keeps steps, [T, B, ...]."""
        self._steps.append(map_params(torch.clone, _without_buffers(exp)))

    def take_steps(self) -> Experience:
        """What was kept of the steps, [T, B, ...]."""
        steps, self._steps = self._steps, []
        spec = extract_spec(steps[0].rollout_info, from_dim=2)
        params = [distributions_to_params(step) for step in steps]
        whole: Experience = params[0]
        if len(params) > 1:
            whole = nest.map_structure(lambda *tensors: torch.cat(tensors, 0), *params)
        return whole._replace(rollout_info=params_to_distributions(whole.rollout_info, spec))

    def take_episodes(self) -> TimeStep:
        """What metrics need of the steps since the last call, [T, B, ...]."""
        kept, self._episodes = self._episodes, []
        return kept[0] if len(kept) == 1 else nest.map_structure(lambda *tensors: torch.cat(tensors, 0), *kept)


def _joined(parts: list[Experience]) -> Experience:
    """Rollouts [T + 1, B, ...], each of which goes on where the one before looked ahead, as one."""
    if len(parts) == 1:
        return parts[0]
    spec = extract_spec(parts[0].rollout_info, from_dim=2)
    params = [distributions_to_params(part) for part in parts]
    params = [*(nest.map_structure(lambda tensor: tensor[:-1], part) for part in params[:-1]), params[-1]]
    whole: Experience = nest.map_structure(lambda *tensors: torch.cat(tensors, 0), *params)
    return whole._replace(rollout_info=params_to_distributions(whole.rollout_info, spec))


def _of_episodes(time_step: TimeStep) -> TimeStep:
    return TimeStep(step_type=time_step.step_type, reward=time_step.reward, env_info=time_step.env_info)


def _without_buffers(experience: Experience) -> Nest:
    return experience._replace(
        time_step=experience.time_step._replace(untransformed=()),
        batch_info=(),
        replay_buffer=(),
        rollout_info_field=(),
    )
