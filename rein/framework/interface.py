"""What every algorithm offers: three steps, a loss, and hooks around an update.

The three steps take `(inputs, state)` and return `AlgStep(output, state, info)`:

* `predict_step` acts for evaluation,
* `rollout_step` acts to collect data,
* `train_step` learns from data that was collected.

`calc_loss` turns the `info` of many steps, batched over time, into a `LossInfo`. Everything that crosses this interface
is a nest of tensors, so whatever drives an algorithm needs to know nothing else about it.
"""

import inspect
from collections.abc import Hashable
from typing import Any, NoReturn

from torch import nn

from rein.data_structures import AlgStep, BatchInfo, Experience, LossInfo
from rein.nest import Nest


class _Constructed(type):
    """Lets an object know when the constructors of all its classes have run."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        made._after_construction()
        return made

    @property
    def __signature__(cls) -> inspect.Signature:
        """That of the constructor, which is what a reader of the class calls."""
        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class AlgorithmInterface(nn.Module, metaclass=_Constructed):
    """The interface; a class that is to act and learn derives from `Algorithm` instead."""

    is_compilable: bool = False
    """Whether `train_step` and `calc_loss` are the same operations at each update, but for what `update_form` says, and
    `after_update` does not need the infos, which compiled updates do not give."""

    needs_update_infos: bool = False
    """Whether with its settings `after_update` needs the infos after all; losses may say so, too."""

    def update_form(self) -> Hashable:
        """What tells apart updates that consist of different operations; the same value for the same operations."""
        return None

    def predict_step(self, inputs: Nest, state: Nest) -> AlgStep:
        """Acts for evaluation.

        Args:
            inputs: nest of tensors [B, ...]; a `TimeStep` for an RL algorithm.
            state: recurrent state matching `predict_state_spec`.
        """
        self._missing("predict_step")

    def rollout_step(self, inputs: Nest, state: Nest) -> AlgStep:
        """Acts to collect data.

        Args:
            inputs: nest of tensors [B, ...]; a `TimeStep` for an RL algorithm.
            state: recurrent state matching `rollout_state_spec`.

        Returns:
            `info` is what `calc_loss` (on-policy) or `train_step` (off-policy, as `rollout_info`) needs.
        """
        self._missing("rollout_step")

    def train_step(self, inputs: Nest, state: Nest, rollout_info: Nest) -> AlgStep:
        """Computes from replayed data what `calc_loss` needs.

        Args:
            inputs: as for `rollout_step`, from the replay buffer.
            state: recurrent state matching `train_state_spec`.
            rollout_info: the `info` that `rollout_step` returned when the data was collected.
        """
        self._missing("train_step")

    def train_sequences(self, inputs: Nest, state: Nest, rollout_info: Nest) -> Nest:
        """Computes what `calc_loss` needs of whole sequences, where no step needs the state after another.

        As if `train_step` was called on every step. An algorithm overrides it to leave out what its losses do not use.

        Args:
            inputs: as for `train_step`, [B, T, ...].
            state: [B, T, ...], or `()`.
            rollout_info: [B, T, ...].

        Returns:
            `AlgStep.info` of all steps, [T, B, ...].
        """
        self._missing("train_sequences")

    def train_recurrent_sequences(self, inputs: Nest, state: Nest, rollout_info: Nest) -> Nest:
        """Computes what `calc_loss` needs of whole sequences, where each step needs the state after the one before.

        As if `train_step` was called on one step after the other. An algorithm overrides it to unroll its networks in one
        call.

        Args:
            inputs: as for `train_step`, [B, T, ...].
            state: before the first step, [B, ...].
            rollout_info: [B, T, ...].

        Returns:
            `AlgStep.info` of all steps, [T, B, ...].
        """
        self._missing("train_recurrent_sequences")

    def train_step_offline(self, inputs: Nest, state: Nest, rollout_info: Nest, pre_train: bool = False) -> AlgStep:
        """Like `train_step`, for data from an offline buffer.

        Args:
            inputs: as for `train_step`.
            state: as for `train_step`.
            rollout_info: what the offline buffer has of it.
            pre_train: True before any online training has happened.
        """
        return self.train_step(inputs, state, rollout_info)

    def calc_loss(self, info: Nest) -> LossInfo:
        """The loss of every step.

        Args:
            info: `AlgStep.info` of T steps, batched as [T, B, ...].

        Returns:
            `LossInfo` with `loss` [T, B].
        """
        self._missing("calc_loss")

    def calc_loss_offline(self, info: Nest, pre_train: bool = False) -> LossInfo:
        """The loss of every step of offline data.

        Args:
            info: `AlgStep.info` of `train_step_offline`, [T, B, ...].
            pre_train: True before any online training has happened.
        """
        return self.calc_loss(info)

    def preprocess_experience(self, root_inputs: Nest, rollout_info: Nest, batch_info: BatchInfo) -> tuple[Nest, Nest]:
        """Prepares sampled data before it is split into minibatches, e.g. computes advantages.

        Args:
            root_inputs: input of the root algorithm's `rollout_step`, [B, T, ...].
            rollout_info: info of this algorithm's `rollout_step`, [B, T, ...].
            batch_info: where the batch came from.

        Returns:
            The processed `root_inputs` and `rollout_info`.
        """
        return root_inputs, rollout_info

    def after_update(self, root_inputs: Nest, info: Nest) -> None:
        """Called after each gradient update, e.g. to move target networks.

        Args:
            root_inputs: what the update was computed from, [T, B, ...].
            info: what `calc_loss` got.
        """

    def after_train_iter(self, root_inputs: Nest | None, rollout_info: Nest | None) -> None:
        """Called after each iteration; for parts that train by their own schedule.

        Args:
            root_inputs: inputs of the root's `rollout_step` during the iteration, [T, B, ...]; None if there was none.
            rollout_info: info of this algorithm's `rollout_step`, [T, B, ...]; None if there was none.
        """

    def train_iter(self) -> int:
        """Runs one iteration and returns the number of samples that were trained on."""
        self._missing("train_iter")

    def train_from_unroll(self, experience: Experience, train_info: Nest) -> int:
        """Updates from what a rollout collected; returns the number of samples trained on."""
        self._missing("train_from_unroll")

    def train_from_replay_buffer(self, update_global_counter: bool = False) -> int:
        """Updates from the replay buffer; returns the number of samples trained on."""
        self._missing("train_from_replay_buffer")

    def set_path(self, path: str) -> None:
        """Tells the algorithm its dotted path from the root."""

    def set_on_policy(self, is_on_policy: bool) -> None:
        """Tells the algorithm whether it trains on-policy."""
        self._missing("set_on_policy")

    @property
    def path(self) -> str:
        """Dotted path from the root algorithm; "" for the root."""
        return ""

    @property
    def on_policy(self) -> bool | None:
        """Whether the algorithm trains on the rollout itself; None if not decided."""
        return None

    def _after_construction(self) -> None:
        """Called once when the object is complete."""

    def _missing(self, method: str) -> NoReturn:
        raise NotImplementedError(
            f"{type(self).__name__} does not implement {method}(): define it, or use the algorithm where it is not called"
        )
