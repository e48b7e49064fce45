"""A representation learner of an agent that learns by reconstructing observations."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from torch import Tensor

from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.framework import Algorithm, TrainerConfig
from rein.nest import Nest
from rein.specs import TensorSpec


class Codec(Protocol):
    """What encodes, decodes and learns: `AutoEncoder`, `Vqvae`, `MoNetAlgorithm`."""

    @property
    def output_spec(self) -> TensorSpec:
        """Spec of the code."""

    def encode(self, inputs: Tensor) -> Tensor:
        """The code without noise, [B, ...]."""

    def decode(self, code: Tensor) -> Tensor:
        """What a code [B, ...] stands for, [B, ...]."""

    def learn(self, inputs: Tensor) -> tuple[Tensor, LossInfo, Tensor]:
        """The reconstruction [B, ...], the loss [B], and the code without noise [B, ...]."""


@configurable
class ReconstructionLearner(Algorithm):
    """Makes codes of observations for the other parts of an agent, and learns to decode them."""

    is_compilable = True

    def __init__(
        self,
        observation_spec: TensorSpec,
        action_spec: Nest = (),
        reward_spec: TensorSpec = TensorSpec(()),
        *,
        codec_ctor: Callable[[TensorSpec], Any],
        is_trained_by_others: bool = False,
        optimizer: Any | None = None,
        config: TrainerConfig | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "ReconstructionLearner",
    ) -> None:
        """Makes the learner.

        Args:
            observation_spec: spec of the observation, one tensor.
            action_spec: not used.
            reward_spec: not used.
            codec_ctor: called as `ctor(observation_spec)`; makes an algorithm that is a `Codec`.
            is_trained_by_others: whether the losses of those who use the code train the encoder too.
            optimizer: of all of it; None leaves it to the agent.
            config: not used.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        if not isinstance(observation_spec, TensorSpec) or not observation_spec.is_continuous:
            raise ValueError(
                f"{name}: the observation is {observation_spec}: only one tensor of floats can be reconstructed; choose one "
                "by a data transformer, and scale images by ImageScaleTransformer"
            )
        super().__init__(optimizer=optimizer, checkpoint=checkpoint, debug_summaries=debug_summaries, name=name)
        self._codec = codec_ctor(observation_spec)
        self._is_trained_by_others = is_trained_by_others
        self._recorded: list[Tensor] | None = None

    @contextmanager
    def recording(self) -> Iterator[list[Tensor]]:
        """Within it, the observations [B, ...] that `predict_step` sees are appended to the list it gives."""
        seen: list[Tensor] = []
        self._recorded = seen
        try:
            yield seen
        finally:
            self._recorded = None

    @property
    def codec(self) -> Codec:
        """What encodes and decodes."""
        return self._codec  # type: ignore[no-any-return]

    @property
    def output_spec(self) -> TensorSpec:
        """Spec of the representation: the code as one vector."""
        return TensorSpec((self.codec.output_spec.numel,))

    def predict_step(self, inputs: TimeStep, state: Nest = ()) -> AlgStep:
        """The representation [B, D]."""
        if self._recorded is not None:
            self._recorded.append(inputs.observation.detach().clone())
        return AlgStep(output=self._shown(self.codec.encode(inputs.observation)), state=state)

    def rollout_step(self, inputs: TimeStep, state: Nest = ()) -> AlgStep:
        """The representation; its loss too, if the rollout itself is trained on."""
        return self.train_step(inputs, state) if self.on_policy else self.predict_step(inputs, state)

    def train_step(self, inputs: TimeStep, state: Nest = (), rollout_info: Nest = ()) -> AlgStep:
        """The representation, and the loss of the reconstruction."""
        _, info, code = self.codec.learn(inputs.observation)
        return AlgStep(output=self._shown(code), state=state, info=info)

    def _shown(self, code: Tensor) -> Tensor:
        """The code as others get it."""
        return (code if self._is_trained_by_others else code.detach()).flatten(1)
