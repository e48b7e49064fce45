"""Evaluation: episodes of the deterministic policy, counted fairly."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rein.data_structures import StepType, TimeStep
from rein.envs import Environment
from rein.framework import RLAlgorithm
from rein.framework.acting.actor import Actor, without_learning
from rein.runtime.seeding import get_rng_state, set_rng_state
from rein.training.statistics_of_runs import bootstrap_interval

logger = logging.getLogger(__name__)
_SUCCESS = "is_success"
MAX_EPISODE_STEPS = 200_000
"""Environment steps of one episode of an evaluation."""
_LONG_EPISODE = 10_000
"""Environment steps after which it is said that an episode has not ended, or it is cut if none of the training has."""


class EvaluationResult(NamedTuple):
    """Returns and lengths of the evaluated episodes, and whether they succeeded."""

    returns: NDArray[np.float64]
    """[N], or [N, D] for a vector reward."""
    lengths: NDArray[np.int64]
    """[N] environment steps."""
    successes: NDArray[np.float64] | None = None
    """[N] what `env_info["is_success"]` was at the last step; None if the environment does not say."""

    @property
    def mean(self) -> float:
        """Mean return; the sum over dimensions for a vector reward."""
        return float(self._scalars().mean())

    @property
    def std(self) -> float:
        """Standard deviation of the returns."""
        scalars = self._scalars()
        return float(scalars.std(ddof=1)) if len(scalars) > 1 else 0.0

    def confidence_interval(self, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> tuple[float, float]:
        """Bootstrap interval of the mean return."""
        low, high = bootstrap_interval(self._scalars(), level, resamples, seed)
        return float(low), float(high)

    def to_json(self) -> dict[str, Any]:
        """Everything as plain numbers."""
        low, high = self.confidence_interval()
        record: dict[str, Any] = {
            "episodes": len(self.lengths),
            "mean_return": self.mean,
            "std_return": self.std,
            "ci95": [low, high],
            "mean_length": float(self.lengths.mean()),
            "returns": self.returns.tolist(),
            "lengths": self.lengths.tolist(),
        }
        if self.successes is not None:
            record |= {"success_rate": float(self.successes.mean()), "successes": self.successes.tolist()}
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "EvaluationResult":
        """What `to_json` was called for."""
        successes = record.get("successes")
        return cls(
            np.array(record["returns"]),
            np.array(record["lengths"], np.int64),
            None if successes is None else np.array(successes),
        )

    def _scalars(self) -> NDArray[np.float64]:
        return self.returns.sum(axis=1) if self.returns.ndim == 2 else self.returns


def evaluate(
    algorithm: RLAlgorithm,
    env: Environment,
    num_episodes: int,
    on_step: Callable[[TimeStep], None] | None = None,
    max_episode_steps: int = MAX_EPISODE_STEPS,
) -> EvaluationResult:
    """Runs whole episodes with `predict_step`; nothing of the training changes, random numbers included.

    Each environment contributes its first episodes, as many as any other or one fewer, so that short episodes are not
    over-represented.

    Args:
        algorithm: the policy.
        env: an environment of its own for evaluation; it is reset first.
        num_episodes: episodes in all.
        on_step: called with every time step, e.g. to render.
        max_episode_steps: an episode that has not ended by then counts as it is, with a warning, and is the last of its
            environment, so that a world without a time limit cannot hold up the run.
    """
    if num_episodes < 1:
        raise ValueError(f"num_episodes is {num_episodes}: evaluate at least 1 episode")
    random_state = get_rng_state()
    try:
        with without_learning(algorithm):
            return _run_episodes(algorithm, env, num_episodes, on_step, max_episode_steps)
    finally:
        set_rng_state(random_state)


def longest_episode(algorithm: RLAlgorithm) -> int:
    """Steps that an episode of an evaluation may have: few, if none of its training has ended so far."""
    return _LONG_EPISODE if algorithm.env_steps and not algorithm.progress_metrics() else MAX_EPISODE_STEPS


def _run_episodes(
    algorithm: RLAlgorithm,
    env: Environment,
    num_episodes: int,
    on_step: Callable[[TimeStep], None] | None,
    max_episode_steps: int,
) -> EvaluationResult:
    batch = env.batch_size
    quota = np.full(batch, num_episodes // batch)
    quota[: num_episodes % batch] += 1
    actor = Actor(algorithm, env.action_spec, batch, "predict")
    time_step = env.reset()
    running = np.zeros((batch, *env.reward_spec.shape))
    length = np.zeros(batch, np.int64)
    returns: list[NDArray[np.float64]] = []
    lengths: list[int] = []
    successes: list[float] = []
    has_told = False
    while quota.any():
        if on_step is not None:
            on_step(time_step)
        time_step = env.step(actor.act(time_step).action)
        step_type = time_step.step_type.numpy()
        running += time_step.reward.double().numpy()
        length += step_type != StepType.FIRST
        success = _success(time_step)
        ended = step_type == StepType.LAST
        is_too_long = length >= max_episode_steps
        if not has_told and (length >= _LONG_EPISODE).any() and not is_too_long.any():
            has_told = True
            logger.warning(
                "an episode of the evaluation has not ended after %d steps: it is cut after %d; a world without an end needs "
                "a time limit, such as gymnasium.wrappers.TimeLimit",
                _LONG_EPISODE,
                max_episode_steps,
            )
        if is_too_long.any():
            logger.warning(
                "an episode of the evaluation has not ended after %d steps: it is cut there and the last of its world",
                max_episode_steps,
            )
            ended |= is_too_long
            quota[is_too_long & (quota > 0)] = 1
        for index in np.flatnonzero(ended & (quota > 0)):
            quota[index] -= 1
            returns.append(running[index].copy())
            lengths.append(int(length[index]))
            if success is not None:
                successes.append(float(success[index]))
        running[ended] = 0
        length[ended] = 0
    if on_step is not None:
        on_step(time_step)
    return EvaluationResult(np.array(returns), np.array(lengths), _told(np.array(successes)))


def _told(successes: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """What was said about success, 0 for episodes of which nothing was; None if nothing was said of any."""
    return None if np.isnan(successes).all() else np.nan_to_num(successes)


def _success(time_step: TimeStep) -> NDArray[np.float64] | None:
    """[B] what the environments say about success, NaN where they do not; None if they never do."""
    info = time_step.env_info
    return info[_SUCCESS].double().numpy() if isinstance(info, Mapping) and _SUCCESS in info else None
