"""Callbacks that keep something of a run: its best policy, videos on the way."""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rein.training.callbacks.callback import Callback, CallbackError
from rein.training.callbacks.stopping import require_evaluations, score_of
from rein.training.callbacks.training import Training

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class KeepBest(Callback):
    """Keeps the policy that had the best evaluation: `rein.load(run, checkpoint="best")`.

    Attributes:
        name: of the folder that it is kept in.
    """

    name: str = "best"
    best: float = field(default=-math.inf, init=False, repr=False)
    saved_at: int | None = field(default=None, init=False, repr=False)
    keeps_policy = True

    def on_start(self, training: Training) -> None:
        """Sees to it that there are evaluations, and forgets policies that the run has not come to yet."""
        require_evaluations(self, training)
        training.forget_policies(self.name, keep=self.saved_at)

    def on_evaluation(self, training: Training, result: Any) -> None:
        """Saves a policy that is better than those before."""
        score = score_of(result)
        if score > self.best:
            training.save_policy(self.name)
            self.best, self.saved_at = score, training.evaluated_at.iterations

    def on_checkpoint(self, training: Training, path: Path) -> None:
        """Forgets older policies; until now a run that is resumed could have needed them."""
        training.forget_policies(self.name, keep=self.saved_at)

    def state_dict(self) -> dict[str, Any]:
        """The best evaluation so far, and when it was."""
        return {"best": self.best, "saved_at": self.saved_at}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from there."""
        self.best, self.saved_at = float(state["best"]), state["saved_at"]


@dataclass(eq=False)
class RecordVideos(Callback):
    """Records the policy every so many environment steps, into the videos of the run.

    Attributes:
        every: environment steps between two videos; of a run without an environment, iterations.
        episodes: in each video.
        form: "mp4" or "gif".
    """

    every: int = 10_000
    episodes: int = 1
    form: str = "mp4"
    done: int = field(default=0, init=False, repr=False)
    _has_failed: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.every < 1 or self.episodes < 1 or self.form not in ("mp4", "gif"):
            raise CallbackError(f'{self!r}: every and episodes must be at least 1, form "mp4" or "gif"')

    def on_iteration(self, training: Training) -> None:
        """Records if it is time."""
        count = training.progress.env_steps or training.progress.iterations
        if count // self.every <= self.done or self._has_failed:
            return
        self.done = count // self.every
        try:
            training.record_video(f"step-{count}.{self.form}", self.episodes)
        except Exception as error:
            # A world that cannot be drawn is no reason to lose a run.
            logger.warning("RecordVideos: no video at step %d, and no further ones: %s", count, error)
            self._has_failed = True

    def state_dict(self) -> dict[str, Any]:
        """How many times it was time."""
        return {"done": self.done}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on counting."""
        self.done = int(state["done"])
