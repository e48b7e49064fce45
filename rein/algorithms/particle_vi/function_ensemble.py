"""Many networks of one architecture on a supervised task: their loss, their outputs as particles, their evaluation."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from rein.algorithms.particle_vi.labelled_data import Loader, batches
from rein.algorithms.particle_vi.likelihoods import LOSS_TYPES, VOTES, classification_loss, regression_loss
from rein.data_structures import LossInfo
from rein.networks import ParamNetwork
from rein.ops import (
    area_under_roc,
    calibration_bins,
    disagreement,
    expected_calibration_error,
    predictive_entropy,
    roc_curve,
)

EXTRA_SAMPLERS = ("uniform", "normal")


class FunctionSpace(NamedTuple):
    """How outputs of networks are compared on points besides the batch."""

    batch_size: int
    """Number of examples of a mini-batch."""
    ratio: float
    """Number of points per example."""
    sampler: str
    """Distribution of the noise that is added to the last rows of the batch to get them: "uniform" or "normal"."""
    std: float
    """Deviation of normal noise."""

    @property
    def extra_points(self) -> int:
        """Number of points."""
        return math.ceil(self.batch_size * self.ratio)

    def check(self, owner: str) -> None:
        """Refuses settings that cannot work."""
        if self.batch_size < 1:
            raise ValueError(f"{owner}: function_vi needs the size of a mini-batch: give function_bs")
        if self.sampler not in EXTRA_SAMPLERS:
            raise ValueError(f"{owner}: function_extra_bs_sampler is {self.sampler!r}: choose one of {EXTRA_SAMPLERS}")

    def draw(self, examples: Tensor) -> Tensor:
        """Points near the last rows of a batch."""
        rows = examples[examples.shape[0] - min(self.extra_points, examples.shape[0]) :]
        return rows + (torch.rand_like(rows) if self.sampler == "uniform" else self.std * torch.randn_like(rows))


class EnsembleCurves(NamedTuple):
    """What charts of a classifier show."""

    confidence: Tensor
    """[K] mean confidence of each bin of predictions."""
    accuracy: Tensor
    """[K] their accuracy."""
    counts: Tensor
    """[K] their number."""
    roc: dict[str, tuple[Tensor, Tensor]]
    """False and true positive rates of finding outliers, by the measure of uncertainty; empty without outliers."""


class FunctionEnsemble:
    """Evaluates networks that are given as parameter vectors [N, param_length]."""

    def __init__(self, owner: str, param_net: ParamNetwork, loss_type: str, voting: str) -> None:
        """Keeps the architecture.

        Args:
            owner: name of the algorithm, for messages.
            param_net: the architecture.
            loss_type: "classification" or "regression".
            voting: "soft" or "hard".
        """
        if loss_type not in LOSS_TYPES:
            raise ValueError(f"{owner}: loss_type is {loss_type!r}: choose one of {LOSS_TYPES}")
        if voting not in VOTES:
            raise ValueError(f"{owner}: voting is {voting!r}: choose one of {tuple(VOTES)}")
        self._net = param_net
        self.is_classifier = loss_type == "classification"
        self._vote = VOTES[voting]

    def predict(self, params: Tensor, examples: Tensor) -> Tensor:
        """Outputs [B, N, O]."""
        self._net.set_parameters(params)
        outputs: Tensor = self._net(examples)[0]
        return outputs

    def loss(self, outputs: Tensor, targets: Tensor) -> LossInfo:
        """Negative log likelihoods of outputs [B, N, O]; `loss` is [N]."""
        if self.is_classifier:
            return classification_loss(outputs, targets, self._vote)
        return regression_loss(outputs, targets)

    def parameter_loss(self, examples: Tensor, targets: Tensor) -> Callable[[Tensor], LossInfo]:
        """E of parameters [N, param_length]."""
        return lambda params: self.loss(self.predict(params, examples), targets)

    def output_loss(self, targets: Tensor) -> Callable[[Tensor], LossInfo]:
        """E of outputs on the batch, [N, B * O]."""

        def loss(outputs: Tensor) -> LossInfo:
            rows = outputs.reshape(outputs.shape[0], targets.shape[0], -1)
            return self.loss(rows.transpose(0, 1), targets)

        return loss

    def outputs(
        self, examples: Tensor, space: FunctionSpace
    ) -> Callable[[Tensor | tuple[Tensor, Tensor]], tuple[Tensor, Tensor, Tensor]]:
        """The transform from parameters to outputs on a batch, see `amortized.Transform`."""
        return partial(self._outputs, examples, space)

    def _outputs(
        self, examples: Tensor, space: FunctionSpace, params: Tensor | tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        params, points = params if isinstance(params, tuple) else (params, space.draw(examples))
        rows = self.predict(params, torch.cat([examples, points])).transpose(0, 1)
        count = examples.shape[0]
        return rows[:, :count].flatten(1), rows[:, count:].flatten(1), points

    @torch.no_grad()
    def evaluate(self, params: Tensor, loader: Loader) -> dict[str, float]:
        """Measures on test data.

        Returns:
            `test_loss`, summed over the data: for regression half of the squared error of the mean prediction, for
            classification the cross entropy, averaged over the networks. For classification besides: `test_acc` of the
            vote, `member_acc` of a network on average, `test_nll` per example of the mean of the probabilities, and
            `calibration_error`.
        """
        outputs, targets = self._outputs_on(params, loader)
        if not self.is_classifier:
            return {"test_loss": float(regression_loss(outputs.mean(1, keepdim=True), targets).loss.sum())}
        info, labels = self.loss(outputs, targets), targets.reshape(-1).long()
        probabilities = outputs.softmax(-1).mean(1)
        right = probabilities.gather(1, labels.unsqueeze(1)).clamp(min=torch.finfo(probabilities.dtype).tiny)
        return {
            "test_loss": float(info.loss.mean()),
            "test_acc": float(info.extra),
            "member_acc": float((outputs.argmax(-1) == labels.unsqueeze(1)).float().mean()),
            "test_nll": float(-right.log().mean()),
            "calibration_error": expected_calibration_error(probabilities, labels),
        }

    @torch.no_grad()
    def uncertainty(self, params: Tensor, inliers: Loader, outliers: Loader) -> tuple[float, float]:
        """How well uncertainty tells outliers from test data: areas under ROC curves.

        Returns:
            That of the entropy of the mean probabilities, and that of the summed variance of the probabilities.
        """
        known = self._outputs_on(params, inliers)[0].softmax(-1)
        strange = self._outputs_on(params, outliers)[0].softmax(-1)
        probabilities = torch.cat([known, strange])
        is_outlier = torch.arange(len(probabilities), device=probabilities.device) >= len(known)
        return (
            area_under_roc(predictive_entropy(probabilities), is_outlier),
            area_under_roc(disagreement(probabilities), is_outlier),
        )

    @torch.no_grad()
    def curves(self, params: Tensor, inliers: Loader, outliers: Loader | None) -> "EnsembleCurves":
        """What charts of a classifier show: calibration, and with outliers how uncertainty finds them."""
        outputs, targets = self._outputs_on(params, inliers)
        known = outputs.softmax(-1)
        counts, confidence, accuracy = calibration_bins(known.mean(1), targets.reshape(-1).long())
        used = counts > 0
        roc: dict[str, tuple[Tensor, Tensor]] = {}
        if outliers is not None and params.shape[0] > 1:
            both = torch.cat([known, self._outputs_on(params, outliers)[0].softmax(-1)])
            is_outlier = torch.arange(len(both), device=both.device) >= len(known)
            roc = {
                "entropy": roc_curve(predictive_entropy(both), is_outlier),
                "variance": roc_curve(disagreement(both), is_outlier),
            }
        return EnsembleCurves(confidence[used], accuracy[used], counts[used], roc)

    def _outputs_on(self, params: Tensor, loader: Loader) -> tuple[Tensor, Tensor]:
        """Outputs [M, N, O] and labels of all examples of a loader."""
        outputs, labels = [], []
        for examples, targets in batches(loader):
            outputs.append(self.predict(params, examples))
            labels.append(targets)
        return torch.cat(outputs), torch.cat(labels)
