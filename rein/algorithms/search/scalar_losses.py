"""How models predict single numbers: what their heads give, what that means, and the loss.

All are called as `loss(pred, target)`, with targets [...] and predictions [...] or [..., n], and give losses [...];
`calc_expectation(pred)` gives the predicted number [...].
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rein.config import configurable
from rein.ops import integer_bins, inverse_sqrt1p, quantile_midpoints, sqrt1p, two_bins


class InvertibleTransform:
    """A transformation of targets; the identity."""

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {}

    def transform(self, x: Tensor) -> Tensor:
        """The transformed target, [...]."""
        return x

    def inverse_transform(self, y: Tensor) -> Tensor:
        """The number that `y` [...] was made of."""
        return y


@configurable
class Sqrt1pTransform(InvertibleTransform):
    """Squeezes large numbers: sign(x) (sqrt(|x| + 1) - 1)."""

    def transform(self, x: Tensor) -> Tensor:
        """See `rein.ops.sqrt1p`."""
        return sqrt1p(x)

    def inverse_transform(self, y: Tensor) -> Tensor:
        """See `rein.ops.inverse_sqrt1p`."""
        return inverse_sqrt1p(y)


class ScalarPredictionLoss:
    """Base of the losses of this module."""

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {}

    def __call__(self, pred: Tensor, target: Tensor) -> Tensor:
        """Losses [...] of predictions for targets [...]."""
        raise NotImplementedError

    def calc_expectation(self, pred: Tensor) -> Tensor:
        """The predicted numbers, [...]."""
        raise NotImplementedError

    def initialize_bias(self, bias: Tensor) -> None:
        """Sets the bias of a head, [n], such that its first predictions are near 0."""
        with torch.no_grad():
            bias.zero_()


@configurable
class SquareLoss(ScalarPredictionLoss):
    """The head gives the number itself; squared error."""

    def __repr__(self) -> str:
        return "SquareLoss()"

    def __call__(self, pred: Tensor, target: Tensor) -> Tensor:
        """See `ScalarPredictionLoss`; `pred` is [...]."""
        return (pred - target).square()

    def calc_expectation(self, pred: Tensor) -> Tensor:
        """The prediction itself."""
        return pred


class BinnedLoss(ScalarPredictionLoss):
    """Base of losses whose heads give a distribution over integers."""

    def __init__(self, transform: InvertibleTransform | None = None, inverse_after_mean: bool = False) -> None:
        """Keeps the transformation.

        Args:
            transform: of targets, before they are put into bins; None: none.
            inverse_after_mean: invert the mean of the bins, as the MuZero paper does, in place of the mean of the inverted
                bins, which is unbiased.
        """
        self._transform = InvertibleTransform() if transform is None else transform
        self._inverse_after_mean = inverse_after_mean

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"transform": self._transform, "inverse_after_mean": self._inverse_after_mean}

    def probs(self, pred: Tensor) -> Tensor:
        """Probabilities of the bins, [..., n]."""
        raise NotImplementedError

    def _bins_of(self, target: Tensor, n: int) -> Tensor:
        return two_bins(self._transform.transform(target), n)

    def calc_expectation(self, pred: Tensor) -> Tensor:
        """The mean of the distribution, transformed back."""
        bins, probs = integer_bins(pred.shape[-1], pred), self.probs(pred)
        if self._inverse_after_mean:
            return self._transform.inverse_transform((probs * bins).sum(-1))
        return (probs * self._transform.inverse_transform(bins)).sum(-1)


@configurable
class DiscreteRegressionLoss(BinnedLoss):
    """The head gives logits of a softmax over integers; cross entropy with the two bins around the target."""

    def __call__(self, pred: Tensor, target: Tensor) -> Tensor:
        """See `ScalarPredictionLoss`; `pred` is [..., n]."""
        return -(self._bins_of(target, pred.shape[-1]) * pred.log_softmax(-1)).sum(-1)

    def probs(self, pred: Tensor) -> Tensor:
        """Probabilities of the bins, [..., n]."""
        return pred.softmax(-1)

    def initialize_bias(self, bias: Tensor) -> None:
        """Puts half of the mass on 0."""
        n = bias.shape[-1]
        with torch.no_grad():
            bias.zero_()
            bias[..., (n - 1) // 2] = torch.log(torch.tensor(float(n - 1)))


@configurable
class OrderedDiscreteRegressionLoss(BinnedLoss):
    """The head gives logits of "at least this integer"; binary cross entropies."""

    def __call__(self, pred: Tensor, target: Tensor) -> Tensor:
        """See `ScalarPredictionLoss`; `pred` is [..., n]."""
        bins = self._bins_of(target, pred.shape[-1])
        at_least = bins.flip(-1).cumsum(-1).flip(-1).clamp_max(1.0)
        return F.binary_cross_entropy_with_logits(pred, at_least, reduction="none").sum(-1)

    def probs(self, pred: Tensor) -> Tensor:
        """Probabilities of the bins, [..., n]; at least the next integer is never more likely than at least this one."""
        at_least = pred.sigmoid().cummin(-1).values
        at_least = torch.cat([torch.ones_like(at_least[..., :1]), at_least[..., 1:]], -1)
        return at_least - F.pad(at_least[..., 1:], (0, 1))

    def initialize_bias(self, bias: Tensor) -> None:
        """Makes integers up to 0 likely and those above unlikely."""
        n = bias.shape[-1]
        with torch.no_grad():
            bias.fill_(-2.0)
            bias[..., : (n - 1) // 2 + 1] = 2.0


@configurable
class QuantileRegressionLoss(ScalarPredictionLoss):
    """The head gives quantiles; their mean is the number."""

    def __init__(self, transform: InvertibleTransform | None = None, delta: float = 1.0) -> None:
        """Keeps the settings.

        Args:
            transform: of targets; None: none.
            delta: where the Huber function turns from squares to absolute values.
        """
        self._transform = InvertibleTransform() if transform is None else transform
        self._delta = delta

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"transform": self._transform, "delta": self._delta}

    def __call__(self, pred: Tensor, target: Tensor) -> Tensor:
        """See `ScalarPredictionLoss`; `pred` is [..., n]."""
        y = self._transform.transform(target).unsqueeze(-1)
        tau = quantile_midpoints(pred.shape[-1], device=pred.device)
        below = (y < pred).to(pred.dtype)
        error = (y - pred).abs()
        huber = torch.where(error <= self._delta, 0.5 * error.square() / self._delta, error - 0.5 * self._delta)
        return ((tau - below).abs() * huber).sum(-1)

    def calc_expectation(self, pred: Tensor) -> Tensor:
        """The mean of the quantiles, transformed back."""
        return self._transform.inverse_transform(pred).mean(-1)
