"""A decoder of one field of the experience, for `PredictiveRepresentationLearner`."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from rein import nest
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo
from rein.framework.algorithm import Algorithm
from rein.nest import Nest
from rein.networks import Network
from rein.ops import masked_mean
from rein.runtime import summary
from rein.specs import TensorSpec
from rein.statistics import AdaptiveNormalizer

_ELEMENT_WISE_SMOOTH_L1 = partial(nn.SmoothL1Loss, reduction="none")


@configurable
class SimpleDecoder(Algorithm):
    """Predicts one field of the experience from a representation, with an element-wise loss."""

    def __init__(
        self,
        input_tensor_spec: TensorSpec,
        target_field: str,
        decoder_net_ctor: Callable[..., Network],
        loss_ctor: Callable[..., Callable[[Tensor, Tensor], Tensor]] = _ELEMENT_WISE_SMOOTH_L1,
        loss_weight: float = 1.0,
        summarize_each_dimension: bool = False,
        optimizer: Any | None = None,
        normalize_target: bool = False,
        append_target_field_to_name: bool = True,
        debug_summaries: bool = False,
        name: str = "SimpleDecoder",
    ) -> None:
        """Makes the decoder.

        Args:
            input_tensor_spec: spec of the representation.
            target_field: what to predict: a dotted path into `TimeStep`, such as ``"reward"`` or
                ``"observation.position"``.
            decoder_net_ctor: called as `ctor(input_tensor_spec=)`; from the representation to the target.
            loss_ctor: called as `ctor()`; makes `loss(prediction, target)`, which keeps [T, B].
            loss_weight: factor of the loss.
            summarize_each_dimension: write the loss of each element of the target.
            optimizer: of the decoder; None leaves it to the parent.
            normalize_target: divide errors by the running deviation of the target, in the loss only.
            append_target_field_to_name: make the name `name.target_field`.
            debug_summaries: write the loss, and how much of the target is explained.
            name: name in summaries.
        """
        if append_target_field_to_name:
            name = f"{name}.{target_field}"
        network = decoder_net_ctor(input_tensor_spec=input_tensor_spec)
        if not nest.is_empty(network.state_spec):
            raise ValueError(f"{name}: the decoder is recurrent: it sees one representation at a time")
        super().__init__(optimizer=optimizer, debug_summaries=debug_summaries, name=name)
        self._decoder_net = network
        self._target_field = target_field
        self._loss = loss_ctor()
        self._loss_weight = loss_weight
        self._summarizes_each_dimension = summarize_each_dimension
        self._target_normalizer = None
        if normalize_target:
            self._target_normalizer = AdaptiveNormalizer(network.output_spec, auto_update=False)

    def get_target_fields(self) -> str:
        """The path of what is predicted."""
        return self._target_field

    def predict_step(self, repr: Tensor, state: Nest = ()) -> AlgStep:
        """The predicted target, [B, ...]."""
        return AlgStep(output=self._decoder_net(repr)[0])

    def train_step(self, repr: Tensor, state: Nest = ()) -> AlgStep:  # type: ignore[override]
        """The predicted target, [B, ...]; the caller gives it to `calc_loss` with the target."""
        predicted, _ = self._decoder_net(repr)
        return AlgStep(output=predicted, info=predicted)

    def calc_loss(self, target: Tensor, predicted: Tensor, mask: Tensor | None = None) -> LossInfo:  # type: ignore[override]
        """The loss of every prediction.

        Args:
            target: [T, B, ...].
            predicted: same shape.
            mask: bool [T, B], False where there is no target.

        Returns:
            `loss` [T, B], weighted, 0 where the mask is False; `extra` is the same without the weight.
        """
        if target.shape != predicted.shape:
            raise ValueError(
                f"{self.name}: the decoder gives {tuple(predicted.shape)}, the target has {tuple(target.shape)}: make "
                "their shapes the same"
            )
        if self._debug_summaries and summary.should_record_summaries():
            self._summarize(target, predicted, mask)
        if self._target_normalizer is not None:
            self._target_normalizer.update(target if mask is None else target[mask])
            target, predicted = (self._target_normalizer.normalize(value) for value in (target, predicted))
        elements = self._loss(predicted, target)
        if elements.shape[:2] != target.shape[:2]:
            raise ValueError(f"{self.name}: the loss has shape {tuple(elements.shape)}: it must keep [T, B]")
        loss = elements.flatten(2).mean(2) if elements.ndim > 2 else elements
        if mask is not None:
            loss = loss * mask
        return LossInfo(loss=self._loss_weight * loss, extra=loss.detach())

    def _summarize(self, target: Tensor, predicted: Tensor, mask: Tensor | None) -> None:
        errors = (predicted.detach() - target).square()
        by_element = masked_mean(errors, mask, dim=(0, 1)).flatten()
        with summary.scope(self._name):
            summary.scalar("squared_error", by_element.mean())
            if self._summarizes_each_dimension:
                for i, error in enumerate(by_element):
                    summary.scalar(f"squared_error/{i}", error)
