"""Decoding: predicts a target from an input, and learns to."""

from collections.abc import Callable

from torch import Tensor, nn

from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo
from rein.framework.algorithm import Algorithm
from rein.nest import Nest
from rein.networks import Network


@configurable
class DecodingAlgorithm(Algorithm):
    """Trains a decoder by a loss between its output and a target."""

    is_compilable = True

    def __init__(
        self,
        decoder: Network,
        loss: Callable[[Tensor, Tensor], Tensor] = nn.MSELoss(reduction="none"),  # noqa: B008 - has no state
        loss_weight: float = 1.0,
        name: str = "DecodingAlgorithm",
    ) -> None:
        """Makes the algorithm.

        Args:
            decoder: from inputs to predictions of the target.
            loss: called as `loss(prediction, target)`; must keep the batch dimension, further ones are averaged.
            loss_weight: factor of the loss.
            name: name in summaries.
        """
        super().__init__(train_state_spec=decoder.state_spec, name=name)
        self._decoder = decoder
        self._loss = loss
        self._loss_weight = loss_weight

    def predict_step(self, inputs: Nest, state: Nest = ()) -> AlgStep:
        """The prediction for an input (without a target)."""
        output, state = self._decoder(inputs, state)
        return AlgStep(output=output, state=state)

    def rollout_step(self, inputs: tuple[Nest, Tensor], state: Nest = ()) -> AlgStep:
        """As `train_step`; the loss is kept only if the rollout itself is trained on."""
        step = self.train_step(inputs, state)
        return step if self.on_policy else step._replace(info=())

    def train_step(self, inputs: tuple[Nest, Tensor], state: Nest = (), rollout_info: Nest = None) -> AlgStep:
        """The prediction and its loss.

        Args:
            inputs: input of the decoder, and the target [B, ...].
            state: of the decoder.
            rollout_info: not used.
        """
        value, target = inputs
        prediction, state = self._decoder(value, state)
        if prediction.shape != target.shape:
            raise ValueError(
                f"{self.name}: the decoder gives {tuple(prediction.shape)}, the target has {tuple(target.shape)}: make "
                "their shapes the same"
            )
        loss = self._loss(prediction, target)
        if loss.ndim == 0:
            raise ValueError(f"{self.name}: the loss is one number for the batch: give one with reduction='none'")
        loss = loss.flatten(1).mean(1) if loss.ndim > 1 else loss
        return AlgStep(
            output=prediction, state=state, info=LossInfo(loss=self._loss_weight * loss, extra=loss.detach())
        )
