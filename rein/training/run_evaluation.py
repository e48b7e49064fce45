"""The evaluations of a run: in this process, or in one beside it."""

import logging
from collections.abc import Callable
from typing import Any

from rein.envs import Environment, create_environment
from rein.framework import RLAlgorithm, TrainerConfig
from rein.training.async_evaluation import AsyncEvaluator
from rein.training.evaluation import EvaluationResult, evaluate, longest_episode
from rein.training.run_directory import RunDirectory

logger = logging.getLogger(__name__)

Record = Callable[[Any, EvaluationResult], None]
"""Takes the tag that came with the request, and the result."""


class RunEvaluation:
    """Evaluates an algorithm while it is trained; one evaluation is under way at a time."""

    def __init__(self, config: TrainerConfig, directory: RunDirectory, record: Record) -> None:
        """Starts nothing.

        Args:
            config: settings of the run.
            directory: of the run.
            record: called with every result.
        """
        self._config = config
        self._directory = directory
        self._record = record
        self._env: Environment | None = None
        self._worker: AsyncEvaluator | None = None
        self._worker_is_ready = False

    def start(self) -> None:
        """Starts the process that evaluates, if the settings ask for one, so that it is ready when it is needed."""
        if not self._config.async_eval or self._worker is not None:
            return
        if self._directory.config.exists():
            self._worker = AsyncEvaluator(self._directory)
        else:
            logger.warning(
                "asynchronous evaluation needs the configuration of the run, which was not saved: it evaluates in the "
                "training process; start runs with rein.training.launch, or set TrainerConfig.async_eval=False"
            )

    def request(self, algorithm: RLAlgorithm, seed: int, tag: Any) -> None:
        """Evaluates the algorithm as it is now; what is under way is waited for first.

        Args:
            algorithm: the policy.
            seed: of the episodes.
            tag: recorded with the result.
        """
        episodes, longest = self._config.num_eval_episodes, longest_episode(algorithm)
        worker = self._ready_worker()
        if worker is not None:
            self.collect(wait=True)
            worker.submit(algorithm, seed, episodes, tag, longest)
            return
        if self._env is None:
            self._env = create_environment(
                num_parallel_environments=self._config.num_eval_environments, count_successes=True
            )
        self._env.seed(seed)
        self._record(tag, evaluate(algorithm, self._env, episodes, max_episode_steps=longest))

    def _ready_worker(self) -> AsyncEvaluator | None:
        """The process that evaluates, if the settings ask for one and it works."""
        if self._worker is not None and not self._worker_is_ready:
            self._worker_is_ready = self._worker.wait_until_ready()
            if not self._worker_is_ready:
                self._worker.close()
                self._worker = None
        return self._worker

    def collect(self, wait: bool, seconds: float | None = None) -> bool:
        """Records the evaluation that another process was asked for, if it is done.

        Args:
            wait: until it is done.
            seconds: to wait at most; None has no limit.

        Returns:
            Whether nothing is under way any more, or nothing was waited for.
        """
        if self._worker is None:
            return True
        finished = self._worker.collect(wait, seconds)
        if finished is not None:
            self._record(*finished)
        return not wait or not self._worker.is_busy

    def give_up(self) -> None:
        """Ends the process that evaluates, with what is under way; the next request starts none."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def close(self) -> None:
        """Ends the environment and the process."""
        if self._env is not None:
            self._env.close()
        if self._worker is not None:
            self._worker.close()
            self._worker = None
