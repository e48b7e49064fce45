"""A variational encoder, Gaussian or discrete, and a decoder, as one algorithm that learns by itself.

L = w loss(decode(z), x) + info.loss of the encoder,   z ~ q(z|x)
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn

from rein.algorithms.representation.decoding import DecodingAlgorithm
from rein.algorithms.representation.vae import VariationalAutoEncoder
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo
from rein.framework import Algorithm
from rein.nest import Nest
from rein.networks import Network
from rein.specs import TensorSpec


class AutoEncoderLossInfo(NamedTuple):
    """Parts of the loss, [B]."""

    reconstruction: Nest = ()
    """Before its weight."""
    kld: Nest = ()
    """Before beta."""
    beta: Nest = ()
    """`()` if it is not tuned."""


@configurable
class AutoEncoder(Algorithm):
    """Learns to encode and to decode."""

    is_compilable = True

    def __init__(
        self,
        encoder: VariationalAutoEncoder,
        decoder_ctor: Callable[[TensorSpec], Network],
        loss: Callable[[Tensor, Tensor], Tensor] = nn.MSELoss(reduction="none"),  # noqa: B008 - has no state
        loss_weight: float = 1.0,
        optimizer: Any | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "AutoEncoder",
    ) -> None:
        """Makes the auto-encoder.

        Args:
            encoder: a `VariationalAutoEncoder` or `DiscreteVAE`.
            decoder_ctor: called as `ctor(encoder.output_spec)`; gives what is encoded.
            loss: called as `loss(reconstruction, what is encoded)`; must keep the batch dimension, further ones are
                averaged.
            loss_weight: factor of that loss. One half of the number of elements, over the variance of their noise, makes
                the sum with the KL the variational bound.
            optimizer: of all of it; None leaves it to the parent.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        super().__init__(optimizer=optimizer, checkpoint=checkpoint, debug_summaries=debug_summaries, name=name)
        self._encoder = encoder
        self._decoder = DecodingAlgorithm(decoder_ctor(encoder.output_spec), loss, loss_weight)

    @property
    def output_spec(self) -> TensorSpec:
        """Spec of the code."""
        return self._encoder.output_spec

    def encode(self, inputs: Nest) -> Tensor:
        """The code without noise, [B, ...]."""
        return self._encoder.predict_step(inputs).output.z_mode

    def decode(self, code: Tensor) -> Tensor:
        """What a code [B, ...] stands for, [B, ...]."""
        return self._decoder.predict_step(code).output

    def predict_step(self, inputs: Nest, state: Nest = ()) -> AlgStep:
        """The reconstruction from the code without noise; `info` is the `VAEOutput`."""
        output = self._encoder.predict_step(inputs).output
        return AlgStep(output=self.decode(output.z_mode), state=state, info=output)

    def rollout_step(self, inputs: Nest, state: Nest = ()) -> AlgStep:
        """As `train_step`; the loss is kept only if the rollout itself is trained on."""
        step = self.train_step(inputs, state)
        return step if self.on_policy else step._replace(info=())

    def train_step(self, inputs: Nest, state: Nest = (), rollout_info: Nest = ()) -> AlgStep:
        """The reconstruction from a sample, and the loss.

        Args:
            inputs: what to encode, [B, ...]; with a prior network, a tuple of its input and that.
            state: `()`.
            rollout_info: not used.
        """
        output, info, _ = self.learn(inputs)
        return AlgStep(output=output, state=state, info=info)

    def learn(self, inputs: Nest) -> tuple[Tensor, LossInfo, Tensor]:
        """The reconstruction [B, ...], the loss [B], and the code without noise [B, ...]."""
        step = self._encoder.train_step(inputs)
        target = inputs if isinstance(inputs, Tensor) else inputs[1]
        decoded = self._decoder.train_step((step.output.z, target))
        extra = AutoEncoderLossInfo(decoded.info.extra, step.info.kld, step.info.beta)
        return decoded.output, LossInfo(loss=decoded.info.loss + step.info.loss, extra=extra), step.output.z_mode
