"""Callbacks that end a run early."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rein.training.callbacks.callback import Callback, CallbackError
from rein.training.callbacks.training import Training
from rein.training.evaluation import EvaluationResult


def score_of(result: Any) -> float:
    """The number by which evaluations are compared, larger is better: mean return, accuracy, or minus the test loss."""
    if isinstance(result, EvaluationResult):
        return result.mean
    numbers = result.numbers
    if "test_acc" in numbers:
        return float(numbers["test_acc"])
    if "test_loss" in numbers:
        return -float(numbers["test_loss"])
    raise CallbackError(
        f"evaluations of this run measure {', '.join(numbers)}: none of them says which policy is better"
    )


@dataclass(eq=False)
class StopAtReturn(Callback):
    """Ends the run when evaluations have reached a mean return.

    Attributes:
        target: mean return; of a run on labelled data, the accuracy as a share.
        evaluations: how many in a row must have reached it.
    """

    target: float
    evaluations: int = 1
    reached: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.target, bool) or not isinstance(self.target, int | float):
            raise CallbackError(f"StopAtReturn: target is {self.target!r}: give a number")
        if self.evaluations < 1:
            raise CallbackError(f"StopAtReturn: evaluations is {self.evaluations}: give at least 1")

    def on_start(self, training: Training) -> None:
        """Sees to it that there are evaluations."""
        require_evaluations(self, training)

    def on_evaluation(self, training: Training, result: Any) -> None:
        """Counts."""
        score = score_of(result)
        self.reached = self.reached + 1 if score >= self.target else 0
        if self.reached >= self.evaluations:
            times = "" if self.evaluations == 1 else f" for the {_ordinal(self.reached)} time in a row"
            training.stop(f"an evaluation has reached {score:.6g}, at least the target {self.target:.6g}{times}")

    def state_dict(self) -> dict[str, Any]:
        """How many evaluations in a row have reached it."""
        return {"reached": self.reached}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on counting."""
        self.reached = int(state["reached"])


@dataclass(eq=False)
class StopWithoutImprovement(Callback):
    """Ends the run when so many evaluations in a row were no better than the best before them.

    Attributes:
        patience: how many evaluations.
        least: how much better counts as better, in units of the return.
        after: environment steps that are trained in any case.
    """

    patience: int = 10
    least: float = 0.0
    after: int = 0
    best: float = field(default=-math.inf, init=False, repr=False)
    waited: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.patience < 1 or self.least < 0 or self.after < 0:
            raise CallbackError(f"{self!r}: patience must be at least 1, least and after not negative")

    def on_start(self, training: Training) -> None:
        """Sees to it that there are evaluations."""
        require_evaluations(self, training)

    def on_evaluation(self, training: Training, result: Any) -> None:
        """Compares with the best."""
        score = score_of(result)
        if score > self.best + self.least:
            self.best, self.waited = score, 0
            return
        self.waited += 1
        if self.waited >= self.patience and training.progress.env_steps >= self.after:
            training.stop(f"{self.waited} evaluations in a row were no better than {self.best:.6g}")

    def state_dict(self) -> dict[str, Any]:
        """The best so far, and for how long it has been."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on waiting."""
        self.best, self.waited = float(state["best"]), int(state["waited"])


def require_evaluations(callback: Callback, training: Training) -> None:
    """Raises `CallbackError` in a run that does not evaluate."""
    if not training.config.evaluate:
        raise CallbackError(
            f"{type(callback).__name__} looks at evaluations, and this run makes none: set TrainerConfig.evaluate=True"
        )


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
