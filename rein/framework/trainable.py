"""`Trainable`: what a trainer needs of what it trains, whether or not it acts in an environment."""

from collections.abc import Mapping
from typing import Any, Protocol


class Trainable(Protocol):
    """Something that is trained iteration by iteration, and can be saved between two of them.

    An `RLAlgorithm` is one, with an environment or with offline data alone; so is a supervised learner.
    """

    @property
    def name(self) -> str:
        """Name in summaries."""

    @property
    def env_steps(self) -> int:
        """Environment steps taken so far; 0 without an environment."""

    def train_iter(self) -> int:
        """One iteration; returns the number of samples trained on."""

    def progress_metrics(self) -> dict[str, float]:
        """What to show of how training goes, by name."""

    def state_dict(self) -> Mapping[str, Any]:
        """Parameters, buffers and optimizers."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """Restores what `state_dict` gave."""

    def training_state(self) -> dict[str, Any]:
        """What continuing exactly needs besides `state_dict`, as components of a checkpoint by name."""

    def load_training_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `training_state` gave, before `state_dict` and the random numbers, which this may change."""
