"""Encoding: a network that makes the observation of other algorithms."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep, time_step_spec
from rein.framework.algorithm import Algorithm
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks import EncodingNetwork, Network
from rein.specs import TensorSpec


@configurable
class EncodingAlgorithm(Algorithm):
    """Computes a representation by a network, which is trained by those who use it and by losses among its outputs."""

    is_compilable = True

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        encoder_cls: Callable[..., Network] = EncodingNetwork,
        time_step_as_input: bool = False,
        output_fields: Nest | None = None,
        loss_fields: Nest | None = None,
        loss_weights: Nest | None = None,
        optimizer: Any | None = None,
        config: TrainerConfig | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "EncodingAlgorithm",
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the observation.
            action_spec: specs of the action; used with `time_step_as_input` only.
            reward_spec: spec of the reward; used with `time_step_as_input` only.
            encoder_cls: called as `cls(input_tensor_spec)`.
            time_step_as_input: give the encoder the whole `TimeStep` (without `untransformed` and `env_info`) instead of
                the observation.
            output_fields: nest of paths into the output of the encoder, which make the representation; None is all of it.
            loss_fields: nest of paths into the output of the encoder, to numbers [B] that are losses; None has no loss.
            loss_weights: nest of factors like `loss_fields`; None is 1 each.
            optimizer: of the encoder; None leaves it to the parent.
            config: not used.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        input_spec = observation_spec
        if time_step_as_input:
            input_spec = time_step_spec(observation_spec, action_spec, reward_spec)
        encoder = encoder_cls(input_spec)
        super().__init__(
            train_state_spec=encoder.state_spec,
            optimizer=optimizer,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._encoder = encoder
        self._time_step_as_input = time_step_as_input
        self._output_fields = output_fields
        self._loss_fields = [] if loss_fields is None else nest.flatten(loss_fields)
        self._loss_weights = [1.0] * len(self._loss_fields)
        if loss_weights is not None:
            if loss_fields is None:
                raise ValueError(f"{name}: loss_weights is given without loss_fields")
            nest.assert_same_structure(loss_weights, loss_fields)
            self._loss_weights = nest.flatten(loss_weights)
        self._output_spec = self._selected(encoder.output_spec)
        for field in self._loss_fields:
            spec = nest.get_field(encoder.output_spec, field)
            if not isinstance(spec, TensorSpec) or spec.ndim != 0:
                raise ValueError(f"{name}: loss field {field!r} is {spec}: it must be a scalar")

    @property
    def output_spec(self) -> Nest:
        """Specs of the representation."""
        return self._output_spec

    def predict_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        """The representation."""
        output, state = self._encode(inputs, state)
        return AlgStep(output=self._selected(output), state=state)

    def rollout_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        """The representation; its losses too, if the rollout itself is trained on."""
        return self.train_step(inputs, state) if self.on_policy else self.predict_step(inputs, state)

    def train_step(self, inputs: TimeStep, state: Nest, rollout_info: Nest = ()) -> AlgStep:
        """The representation and its losses."""
        output, state = self._encode(inputs, state)
        return AlgStep(output=self._selected(output), state=state, info=self._loss(output))

    def _encode(self, inputs: TimeStep, state: Nest) -> tuple[Nest, Nest]:
        if not self._time_step_as_input:
            return self._encoder(inputs.observation, state)
        return self._encoder(inputs._replace(untransformed=(), env_info=()), state)

    def _selected(self, output: Nest) -> Nest:
        return output if self._output_fields is None else nest.get_nested_field(output, self._output_fields)

    def _loss(self, output: Nest) -> LossInfo | tuple[()]:
        """The weighted sum of the losses among the outputs, [B]; `()` if there are none."""
        if not self._loss_fields:
            return ()
        parts: dict[str, Tensor] = {field: nest.get_field(output, field) for field in self._loss_fields}
        weighted = [weight * part for weight, part in zip(self._loss_weights, parts.values(), strict=True)]
        extra = {field: part.detach() for field, part in parts.items()}
        return LossInfo(loss=sum(weighted[1:], start=weighted[0]), extra=extra)
