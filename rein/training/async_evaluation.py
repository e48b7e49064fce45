"""Evaluation in another process, while training goes on.

The process builds the algorithm from the configuration saved with the run; for each evaluation it is sent parameters and a
seed. One evaluation is under way at a time: who asks for the next one waits for it. Checkpoints wait too, so that a
resumed run has every evaluation exactly once.
"""

import json
import logging
import os
import queue
import subprocess
import sys
import tempfile
import threading
from typing import IO, Any

from torch import Tensor

from rein.framework import RLAlgorithm
from rein.framework.module_state import without_optimizers
from rein.training.evaluation import MAX_EPISODE_STEPS, EvaluationResult
from rein.training.evaluation_worker import pack
from rein.training.run_directory import RunDirectory

logger = logging.getLogger(__name__)
_SECONDS_TO_END = 5.0


class EvaluationWorkerError(RuntimeError):
    """The process that evaluates ended without a result."""


class AsyncEvaluator:
    """A process that evaluates; started at once, asked later."""

    def __init__(self, directory: RunDirectory) -> None:
        """Starts the process.

        Args:
            directory: of the run; its configuration must have been saved.
        """
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the evaluator
        trusted = ["trusted"] if directory.is_trusted else []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rein.training.evaluation_worker", str(directory.path), str(os.getpid()), *trusted],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # an interrupt at the terminal is for the trainer, which ends this process itself
        )
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._listen, name="evaluation answers", daemon=True).start()
        self._pending: Any = None

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)

    def wait_until_ready(self) -> bool:
        """Whether the process could build the algorithm; a message says why if not."""
        if self._answers.get() is not None:
            return True
        logger.warning(
            "asynchronous evaluation is not possible for this run, which evaluates in the training process instead: %s",
            self._last_error(),
        )
        return False

    def submit(
        self,
        algorithm: RLAlgorithm,
        seed: int,
        num_episodes: int,
        tag: Any,
        max_episode_steps: int = MAX_EPISODE_STEPS,
    ) -> None:
        """Asks for an evaluation of the algorithm as it is now.

        Args:
            algorithm: only its state is sent.
            seed: of the episodes.
            num_episodes: how many.
            tag: given back with the result.
            max_episode_steps: see `evaluate`.
        """
        assert self._pending is None, "collect() the evaluation that is under way first"
        state = without_optimizers(dict(algorithm.state_dict()))
        request = {
            "alg": {key: value.cpu() for key, value in state.items() if isinstance(value, Tensor)},
            "seed": seed,
            "episodes": num_episodes,
            "max_episode_steps": max_episode_steps,
        }
        self._pending = tag
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(pack(request))
            self._process.stdin.flush()
        except BrokenPipeError:
            raise EvaluationWorkerError(f"the evaluation process has ended: {self._last_error()}") from None

    @property
    def is_busy(self) -> bool:
        """Whether an evaluation is under way."""
        return self._pending is not None

    def collect(self, wait: bool, seconds: float | None = None) -> tuple[Any, EvaluationResult] | None:
        """The tag and the result of the evaluation under way; None if there is none, or it is not done and not waited for.

        Args:
            wait: until it is done.
            seconds: to wait at most; None has no limit.
        """
        if self._pending is None:
            return None
        try:
            answer = self._answers.get(block=wait, timeout=seconds if wait else None)
        except queue.Empty:
            return None
        if answer is None:
            raise EvaluationWorkerError(f"the evaluation process failed: {self._last_error()}")
        tag, self._pending = self._pending, None
        return tag, EvaluationResult.from_json(answer)

    def _last_error(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"

    def close(self) -> None:
        """Ends the process; what is under way is given up."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            logger.debug("the evaluation process had ended before")
        if self._pending is not None:
            self._process.kill()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()
