"""Estimates of mutual information by neural networks.

With P the joint distribution of x and y, Q the product of their marginals, and T(x, y) a learnt network:

    DV    E_P T - log E_Q exp T                                  Belghazi et al. 2018, arXiv:1801.04062
    KLD   E_P T - E_Q exp T + 1
    JSD   -E_P softplus(-T) - E_Q softplus(T) + log 4            Hjelm et al. 2019, arXiv:1808.06670
    ML    E_P log q(y|x) - log P(y)                              q normal, P(y) given

DV, KLD and ML bound the mutual information from below, JSD a divergence that grows with it. T converges to log P/Q, for
DV up to a constant, so that it estimates the pointwise mutual information.

`train_step` takes in what a sampler with a buffer and the moving average of DV see: they belong to drawing the batch and
not to the step of the optimizer, which may be another algorithm's.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rein import nest
from rein.algorithms.particle_vi.marginal_samplers import MarginalSampler
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo
from rein.distributions import DiagNormal
from rein.framework import Algorithm
from rein.nest import Nest
from rein.networks import EncodingNetwork, NestConcat, Network
from rein.networks.layers import FC, identity
from rein.ops import clipped_ratio, donsker_varadhan, jensen_shannon, kullback_leibler
from rein.specs import TensorSpec
from rein.statistics import ScalarAdaptiveAverager
from rein.statistics.averagers import Averager

ESTIMATORS = ("DV", "KLD", "JSD", "ML")
_SOFTPLUS_INVERSE_OF_ONE = math.log(math.e - 1.0)


@configurable
class MIEstimator(Algorithm):
    """Estimates the mutual information of x and y from samples."""

    def __init__(
        self,
        x_spec: Nest,
        y_spec: Nest,
        model: Network | None = None,
        fc_layers: int | Sequence[int] = (256),
        sampler: str = "buffer",
        buffer_size: int = 65536,
        optimizer: Any | None = None,
        estimator_type: str = "DV",
        averager: Averager | None = None,
        name: str = "MIEstimator",
    ) -> None:
        """Makes the estimator.

        Args:
            x_spec: nest of specs of x.
            y_spec: nest of specs of y; for ML, a single vector of floats.
            model: T, called as `model([x, y])`, to [B, 1] or [B]. For ML, called as `model(x)`, to a vector that mean
                and deviation of q are made from.
            fc_layers: size(s) of the hidden layers of the default model, which takes vectors.
            sampler: how Q is sampled: "buffer", "double_buffer", "shuffle" or "shift"; gradient reaches y with the last
                two only.
            buffer_size: examples that a buffer holds.
            optimizer: of the model.
            estimator_type: "DV", "KLD", "JSD" or "ML".
            averager: for DV, the moving average of exp(T); None: a `ScalarAdaptiveAverager`.
            name: name in summaries.
        """
        super().__init__(optimizer=optimizer, name=name)
        if estimator_type not in ESTIMATORS:
            raise ValueError(f"{name}: estimator_type is {estimator_type!r}: choose one of {', '.join(ESTIMATORS)}")
        self._x_spec, self._y_spec = x_spec, y_spec
        self._type = estimator_type
        sizes = (fc_layers,) if isinstance(fc_layers, int) else tuple(fc_layers)
        self._averager: Averager | None = None
        self._sampler: MarginalSampler | None = None
        if estimator_type == "ML":
            self._build_conditional(model, sizes)
            return
        self._sampler = MarginalSampler(sampler, x_spec, y_spec, buffer_size)
        if estimator_type == "DV":
            self._averager = ScalarAdaptiveAverager() if averager is None else averager
        if model is None:
            model = EncodingNetwork(
                [x_spec, y_spec],
                preprocessing_combiner=NestConcat(),
                fc_layer_params=sizes,
                last_layer_size=1,
                last_activation=identity,
                name=f"{name}.model",
            )
        self._model = model

    def _build_conditional(self, model: Network | None, sizes: tuple[int, ...]) -> None:
        """Q(y|x), which starts at exactly P(y)."""
        spec = self._y_spec
        if not isinstance(spec, TensorSpec) or spec.ndim != 1 or not spec.dtype.is_floating_point:
            raise ValueError(f"{self.name}: estimator_type='ML' needs y to be one vector of floats, got {spec}")
        if model is None:
            combiner = None if isinstance(self._x_spec, TensorSpec) else NestConcat()
            model = EncodingNetwork(
                self._x_spec, preprocessing_combiner=combiner, fc_layer_params=sizes, name=f"{self.name}.model"
            )
        self._model = model
        hidden = model.output_spec.shape[-1]
        self._shift = FC(hidden, spec.numel, kernel_initializer=torch.nn.init.zeros_)
        self._raw_scale = FC(
            hidden, spec.numel, kernel_initializer=torch.nn.init.zeros_, bias_init_value=_SOFTPLUS_INVERSE_OF_ONE
        )

    def train_step(  # type: ignore[override]
        self, inputs: tuple[Nest, Nest], y_distribution: Nest = None, state: Nest = None
    ) -> AlgStep:
        """Computes the loss on a batch.

        Args:
            inputs: x and y of [B, ...], or with more dimensions in front.
            y_distribution: distribution of y, or of y given what else x holds (for conditional information, not with
                DV); samples of Q are drawn from it instead of by the sampler. Required for ML.
            state: not used.

        Returns:
            The output [B] has the bound as its mean; `info.loss` is [B].
        """
        x, y = inputs
        if self._type == "ML":
            estimate = self._log_ratio(x, y, y_distribution)
            return AlgStep(output=estimate, info=LossInfo(loss=-estimate))
        outer, (x, y) = self._squash(x, y)
        if y_distribution is None:
            assert self._sampler is not None
            other_x, other_y = self._sampler(x, y)
        else:
            sample = nest.map_structure(lambda distribution: distribution.sample(), y_distribution)
            other_x, other_y = x, self._squash(None, sample)[1][1]
        loss, estimate = self._bound(self._critic(x, y), self._critic(other_x, other_y))
        return AlgStep(output=estimate.reshape(outer), info=LossInfo(loss=loss.reshape(outer)))

    def _bound(self, joint: Tensor, marginal: Tensor) -> tuple[Tensor, Tensor]:
        """Losses and estimates [B] from T of pairs of P and Q."""
        if self._type == "JSD":
            return jensen_shannon(joint, marginal)
        ratio = clipped_ratio(marginal)
        if self._averager is None:
            return kullback_leibler(joint, ratio)
        return donsker_varadhan(joint, ratio, self._averager.average(ratio.mean().detach()))

    def calc_pmi(self, x: Nest, y: Nest, y_distribution: Nest = None) -> Tensor:
        """The estimated pointwise mutual information log P(y|x) / P(y), [B].

        Args:
            x: [B, ...], or with more dimensions in front.
            y: the same.
            y_distribution: for ML, the distribution of y.
        """
        if self._type == "ML":
            return self._log_ratio(x, y, y_distribution)
        outer, (x, y) = self._squash(x, y)
        pmi = self._critic(x, y)
        if self._averager is not None:
            pmi = pmi - self._averager.get().log()
        return pmi.reshape(outer)

    def _critic(self, x: Nest, y: Nest) -> Tensor:
        """T, [B]."""
        value = self._model([x, y])[0]
        return value.squeeze(-1) if value.ndim == 2 else value

    def _log_ratio(self, x: Nest, y: Tensor, y_distribution: Any) -> Tensor:
        """The log of q(y|x) / P(y), [B], with gradient to q and, through it, to y."""
        if y_distribution is None:
            raise ValueError(f"{self.name}: estimator_type='ML' needs y_distribution, the distribution P(y)")
        outer, (flat_x, _) = self._squash(x, y)
        hidden = self._model(flat_x)[0]
        shift = self._shift(hidden).reshape(*outer, -1)
        factor = F.softplus(self._raw_scale(hidden)).reshape(*outer, -1)
        log_density = y_distribution.log_prob(y)
        if log_density.shape != outer:
            raise ValueError(
                f"{self.name}: y_distribution gives log densities of {tuple(log_density.shape)} for {tuple(outer)} "
                "examples: give a normal distribution with diagonal covariance over the whole of y"
            )
        conditional = DiagNormal(y_distribution.mean + shift, y_distribution.stddev * factor)
        return conditional.log_prob(y) - log_density.detach()

    def _squash(self, x: Nest, y: Nest) -> tuple[torch.Size, tuple[Nest, Nest]]:
        """The dimensions before those of the specs, and x and y with these merged to one."""
        leaf, spec = nest.flatten(y)[0], nest.flatten(self._y_spec)[0]
        outer = leaf.shape[: leaf.ndim - spec.ndim]
        if len(outer) == 1:
            return outer, (x, y)
        merged = nest.map_structure(lambda t: t.flatten(0, len(outer) - 1), (x, y) if x is not None else ((), y))
        return outer, merged
