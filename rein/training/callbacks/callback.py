"""What a callback is: a class of your own that sees a run go on, records metrics, and may end it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rein.data_structures import LossInfo, TimeStep
from rein.training.callbacks.training import Training


class Callback:
    """Sees a run go on; override what you need.

    Hooks come in the order in which they stand here; in each of them `training` is the run. What is not overridden is
    never called and costs nothing. A callback whose behaviour depends on what it has seen gives that in `state_dict`:
    it is saved in every checkpoint, so that a resumed run goes on exactly.

    Attributes:
        keeps_policy: whether `on_evaluation` wants `training.save_policy`, the policy that was evaluated. It is copied
            for that, since training may have gone on when the result of an evaluation in another process comes in.
    """

    keeps_policy: bool = False

    def on_start(self, training: Training) -> None:
        """Called once before the first iteration, also of a run that is resumed."""

    def on_rollout(self, training: Training, steps: TimeStep) -> None:
        """Called in every iteration that collects, before anything is learnt from it.

        Args:
            training: the run.
            steps: all steps of the iteration as the environments gave them, [T, B, ...]: at each, `prev_action` is what
                led there, `reward` what it earned, and `observation` what the next action answers.
        """

    def on_update(self, training: Training, name: str, losses: LossInfo) -> None:
        """Called after every update of parameters.

        Args:
            training: the run.
            name: of the algorithm that was updated.
            losses: averaged to scalars; `losses.loss` is their sum, `losses.extra` its parts.
        """

    def on_iteration(self, training: Training) -> None:
        """Called at the end of every iteration, before its evaluation and checkpoint."""

    def on_evaluation(self, training: Training, result: Any) -> None:
        """Called with the result of every evaluation.

        Args:
            training: the run; `training.evaluated_at` is where it stood when the policy was evaluated.
            result: an `EvaluationResult`; of a run on labelled data, a `SupervisedEvaluation`.
        """

    def on_checkpoint(self, training: Training, path: Path) -> None:
        """Called after a checkpoint was saved.

        Args:
            training: the run.
            path: the checkpoint, a directory.
        """

    def on_end(self, training: Training) -> None:
        """Called once when training has ended and was saved; not if it failed."""

    def state_dict(self) -> dict[str, Any]:
        """What to save: numbers, texts, tensors, and lists, tuples and dicts of them."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave."""


class CallbackError(ValueError):
    """A callback cannot be used; the message says why."""
