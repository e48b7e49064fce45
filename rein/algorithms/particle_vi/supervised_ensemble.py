"""The base of ensembles that learn from labelled data: their data, their passes, their evaluation.

What the networks are, and how they are moved, is said by those that derive from it: particles (`functional`), or samples
of a generator (`hypernetwork`).
"""

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from rein.algorithms.particle_vi.epoch import Epoch, train_epoch
from rein.algorithms.particle_vi.function_ensemble import EnsembleCurves, FunctionEnsemble, FunctionSpace
from rein.algorithms.particle_vi.labelled_data import LabelledData, Loader
from rein.data_structures import AlgStep, LossInfo
from rein.framework import Algorithm
from rein.nest import Nest
from rein.runtime import summary

logger = logging.getLogger(__name__)


class SupervisedEnsemble(Algorithm):
    """Networks of one architecture for one supervised task."""

    _data: LabelledData
    _ensemble: FunctionEnsemble
    _function_space: FunctionSpace | None
    _given_weight: float | None

    def _set_task(
        self,
        data: LabelledData,
        ensemble: FunctionEnsemble,
        function_space: FunctionSpace | None,
        entropy_regularization: float | None,
        logs_training: bool,
        logs_evaluation: bool,
    ) -> None:
        """Keeps what the task consists of; for constructors, once modules can be set.

        Args:
            data: loaders, which may be set later.
            ensemble: evaluates networks.
            function_space: where outputs are compared; None for inference on parameters.
            entropy_regularization: weight of the entropy; None chooses it by the data.
            logs_training: log loss and accuracy of each pass.
            logs_evaluation: log each evaluation.
        """
        self._data, self._ensemble = data, ensemble
        if function_space is not None:
            function_space.check(self.name)
        self._function_space = function_space
        self._given_weight = entropy_regularization
        self._last_epoch: Epoch | None = None
        self._logs_training, self._logs_evaluation = logs_training, logs_evaluation
        self._choose_weight()

    # Data.

    def set_data_loader(
        self,
        train_loader: Loader,
        test_loader: Loader | None = None,
        outlier_data_loaders: tuple[Loader, Loader] | None = None,
        entropy_regularization: float | None = None,
    ) -> None:
        """Sets the data.

        Args:
            train_loader: of (example, label) batches to train on.
            test_loader: of such batches to evaluate on.
            outlier_data_loaders: (train, test) loaders of examples of another kind.
            entropy_regularization: w from now on; None keeps the constructor's.
        """
        self._data.set(train_loader, test_loader, outlier_data_loaders)
        self._given_weight = self._given_weight if entropy_regularization is None else entropy_regularization
        self._choose_weight()

    def _choose_weight(self) -> None:
        """Takes the weight of the entropy that was given, or the one by the data that matches the posterior."""
        raise NotImplementedError

    def get_extra_state(self) -> dict[str, Tensor]:
        """State of the loaders' own random generators."""
        return self._data.state()

    def set_extra_state(self, state: dict[str, Tensor]) -> None:
        """Restores what `get_extra_state` gave."""
        self._data.load_state(state)

    # Learning.

    def _train_pass(self, step: Callable[[Any], AlgStep], parts: Callable[[LossInfo], tuple[LossInfo, Nest]]) -> int:
        """Makes one pass over the training data, see `train_epoch`; returns the number of mini-batches."""
        self.train()
        epoch = train_epoch(self, self._data.need("train"), step, parts)
        self._last_epoch = epoch
        if self._logs_training:
            logger.info("negative log likelihood %g, accuracy %s", epoch.cum_loss, epoch.avg_acc)
        self.summarize_train(epoch.loss_info, epoch.params, epoch.cum_loss, epoch.avg_acc, epoch.inverse_mvp_loss)
        return epoch.mini_batches

    def summarize_train(  # type: ignore[override]
        self,
        loss_info: LossInfo,
        params: list[tuple[str, Parameter]] | None,
        cum_loss: float | None = None,
        avg_acc: float | None = None,
        inverse_mvp_loss: float | None = None,
    ) -> None:
        """Writes summaries of a pass; accuracy in percent.

        Args:
            loss_info: of the last update.
            params: that were updated.
            cum_loss: negative log likelihood, summed over the examples.
            avg_acc: share of examples that were right.
            inverse_mvp_loss: sum of the losses of GPVI's helper.
        """
        super().summarize_train((), (), loss_info, params)
        if cum_loss is not None:
            summary.scalar("train_epoch/neglogprob", cum_loss)
        if avg_acc is not None:
            summary.scalar("train_epoch/avg_acc", 100.0 * avg_acc)
        if inverse_mvp_loss is not None:
            summary.scalar("train_epoch/inverse_mvp_loss", inverse_mvp_loss)

    def progress_metrics(self) -> dict[str, float]:
        """What to show of how training goes: loss and accuracy of the last pass."""
        return {} if self._last_epoch is None else self._last_epoch.metrics()

    # Evaluation.

    @property
    def has_outliers(self) -> bool:
        """Whether there is data for `eval_uncertainty`."""
        return self._data.outlier_test is not None

    @property
    def is_classifier(self) -> bool:
        """Whether the outputs are logits of classes."""
        return self._ensemble.is_classifier

    def _evaluate(self, params: Tensor) -> dict[str, float]:
        """Measures networks [N, param_length] on the test data; see `FunctionEnsemble.evaluate`."""
        numbers = self._ensemble.evaluate(params, self._data.need("test"))
        _summarize(numbers)
        if self._logs_evaluation:
            logger.info("evaluation: %s", numbers)
        return numbers

    def _eval_uncertainty(self, params: Tensor) -> tuple[float, float]:
        """How well the uncertainty of networks [N, param_length] tells outliers from test data."""
        outliers, inliers = self._data.need("outlier_test"), self._data.need("test")
        if params.shape[0] < 2:
            raise ValueError(f"{self.name}: the disagreement of one network is not defined: use num_particles > 1")
        if not self.is_classifier:
            raise ValueError(f"{self.name}: eval_uncertainty() is for loss_type='classification'")
        by_entropy, by_variance = self._ensemble.uncertainty(params, inliers, outliers)
        _summarize({"auroc_entropy": by_entropy, "auroc_variance": by_variance})
        return by_entropy, by_variance

    def _eval_curves(self, params: Tensor) -> EnsembleCurves | None:
        """What charts of networks [N, param_length] show; None for regression."""
        if not self.is_classifier:
            return None
        return self._ensemble.curves(params, self._data.need("test"), self._data.outlier_test)

    @torch.no_grad()
    def _outputs_to_predict(self, params: Tensor, inputs: Tensor) -> Tensor:
        """Outputs [B, N, output_dim] of networks [N, param_length]: probabilities of classes, or values."""
        outputs = self._ensemble.predict(params, inputs)
        return outputs.softmax(-1) if self.is_classifier else outputs


def _summarize(numbers: dict[str, float]) -> None:
    """Writes summaries of an evaluation; accuracies in percent."""
    for name, number in numbers.items():
        summary.scalar(f"eval/{name}", 100.0 * number if name.endswith("_acc") else number)
