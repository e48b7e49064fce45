"""A run as its callbacks see it."""

import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from rein.config.configs import ACTIVE
from rein.envs import Environment
from rein.framework import TrainerConfig
from rein.runtime import summary
from rein.runtime.checkpoint import Checkpointer
from rein.runtime.run import Run
from rein.training.evaluation import EvaluationResult
from rein.training.player import record_video
from rein.training.policy import Policy
from rein.training.progress import Progress
from rein.training.run_directory import RunDirectory


class Host(Protocol):
    """A trainer, as far as callbacks are concerned."""

    algorithm: Any
    config: TrainerConfig
    directory: RunDirectory
    run: Run


class Training:
    """A run as its callbacks see it.

    Attributes:
        algorithm: what is trained, with its networks.
        config: the settings of the run.
        directory: where the run leaves its files.
        run: counters, seed, device and named random generators, which are saved in checkpoints.
        progress: where the run stands: iterations, env_steps, fraction in [0, 1], seconds and metrics.
        evaluated_at: in `on_evaluation`, where the run stood when the policy was evaluated.
        stop_reason: why the run ends early; None as long as it does not.
    """

    def __init__(self, host: Host, progress: Progress) -> None:
        self._host = host
        self.algorithm = host.algorithm
        self.config = host.config
        self.directory: Path = host.directory.path
        self.run = host.run
        self.progress = progress
        self.evaluated_at = progress
        self.stop_reason: str | None = None
        self._is_inside = False
        self._policy_state: dict[str, Any] | None = None

    @property
    def env(self) -> Environment | None:
        """The environments that are trained in; None without."""
        return getattr(self._host, "env", None)

    def stop(self, reason: str) -> None:
        """Ends training after this iteration, saved and with `reason` in run.json, on the console and in the result.

        Args:
            reason: for people, such as "the return has reached 475".
        """
        if not reason:
            raise ValueError("stop needs a reason, which the records of the run will give")
        if self.stop_reason is None:
            self.stop_reason = str(reason)

    def log(self, name: str, value: float | Tensor) -> None:
        """Records a number beside the metrics of the run, whatever the interval between summaries.

        Args:
            name: of the curve; "/" makes groups.
            value: a number, or a tensor of one element.
        """
        # What an iteration records stands under the counter before it, also if it is recorded at its end.
        ends = not self._is_inside and not self.config.update_counter_every_mini_batch
        step = max(0, self.run.global_counter - ends)
        with self.run, summary.record_if(lambda: True, override=True):
            summary.scalar(name, value, step)

    def policy(self) -> Policy:
        """The policy as it is now, to evaluate and record; it must not be changed."""
        specs = getattr(self._host, "specs", None)
        if specs is None:
            raise ValueError("a run on labelled data has no policy that acts: look at training.algorithm")
        return Policy(
            self.algorithm,
            specs.observation,
            ACTIVE.configs,
            self.run.seed,
            self.run.iterations,
            specs.fitted_from,
        )

    def evaluate(self, num_episodes: int = 10) -> EvaluationResult:
        """Whole episodes of the policy as it is now, on held-out seeds; training goes on as if there had been none.

        Args:
            num_episodes: how many.
        """
        return self.policy().evaluate(num_episodes)

    def record_video(self, path: str | Path, num_episodes: int = 1) -> Path:
        """Records the policy as it is now as .mp4 or .gif.

        Args:
            path: the file; a relative one lies in the videos of the run.
            num_episodes: one after the other.
        """
        target = self._host.directory.videos / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return record_video(self.policy(), target, num_episodes).path

    def save_policy(self, name: str) -> Path:
        """Saves the policy that was evaluated; only for `on_evaluation` of a callback with `keeps_policy`.

        `rein.load(run, checkpoint=name)` and `rein evaluate run --checkpoint name` find the one that was saved last.

        Args:
            name: of a folder in the run directory.
        """
        if self._policy_state is None:
            raise ValueError(
                "there is no evaluated policy to save: set keeps_policy = True in the class of the callback"
            )
        checkpointer = Checkpointer(self._host.directory.policies(name))
        return checkpointer.save(self.evaluated_at.iterations, {"alg": self._policy_state})

    def forget_policies(self, name: str, keep: int | None) -> None:
        """Removes what `save_policy` saved under a name, but for one.

        Args:
            name: of the folder in the run directory.
            keep: iterations after which the policy to keep was saved; None keeps none.
        """
        checkpointer = Checkpointer(self._host.directory.policies(name))
        for step in checkpointer.steps():
            if step != keep:
                shutil.rmtree(checkpointer.path(step))

    # For the runner.

    def copy_policy(self) -> dict[str, Any]:
        """A copy of all that the policy needs to act."""
        return copy.deepcopy(dict(self.algorithm.state_dict()))

    def inside_iteration(self, call: Callable[..., None], *arguments: Any) -> None:
        """Calls a hook that comes before the end of an iteration."""
        self._is_inside = True
        try:
            call(self, *arguments)
        finally:
            self._is_inside = False

    def show_evaluated(self, at: Progress, policy_state: dict[str, Any] | None) -> None:
        """Says which policy was evaluated; None forgets it."""
        self.evaluated_at, self._policy_state = at, policy_state
