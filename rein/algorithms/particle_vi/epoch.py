"""One pass over training data, one over test data, and the summaries of both."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor
from torch.nn import Parameter

from rein.algorithms.particle_vi.function_ensemble import FunctionEnsemble
from rein.algorithms.particle_vi.labelled_data import LabelledData, Loader, batches
from rein.data_structures import AlgStep, LossInfo
from rein.framework import Algorithm
from rein.nest import Nest
from rein.runtime import summary


class Epoch(NamedTuple):
    """What happened in one pass."""

    mini_batches: int
    cum_loss: float
    """Negative log likelihood, averaged over the networks and summed over the examples."""
    avg_acc: float | None
    """Share of examples that were right; None for regression."""
    loss_info: LossInfo
    """Of the last update."""
    params: list[tuple[str, Parameter]]
    inverse_mvp_loss: float | None = None
    """Sum of the losses of the helper of GPVI; None without one."""

    def metrics(self) -> dict[str, float]:
        """Loss, and accuracy as a share."""
        return {"loss": self.cum_loss} if self.avg_acc is None else {"loss": self.cum_loss, "accuracy": self.avg_acc}


def train_epoch(
    algorithm: Algorithm,
    loader: Loader,
    step: Callable[[Any], AlgStep],
    parts: Callable[[LossInfo], tuple[LossInfo, Nest]],
) -> Epoch:
    """Updates `algorithm` once for each mini-batch.

    Args:
        algorithm: whose optimizers are stepped.
        loader: of (examples, labels).
        step: its `train_step`.
        parts: finds in its loss that of the networks and that of the helper, `()` without one.
    """
    count, total, correct, helper, examples = 0, 0.0, 0.0, 0.0, 0
    has_accuracy, has_helper, info = False, False, LossInfo()
    params: list[tuple[str, Parameter]] = []
    for batch in batches(loader):
        alg_step = step(batch)
        likelihood, helper_loss = parts(alg_step.info)
        info, params = algorithm.update_with_gradient(alg_step.info)
        algorithm.after_update(batch, alg_step.info)
        count += 1
        examples += len(batch[1])
        total += float(likelihood.loss.mean())
        if isinstance(likelihood.extra, Tensor):
            has_accuracy = True
            correct += float(likelihood.extra) * len(batch[1])
        if isinstance(helper_loss, Tensor):
            has_helper = True
            helper += float(helper_loss)
    if count == 0:
        raise ValueError(f"{algorithm.name}: the training data has no mini-batch: lower its batch_size")
    accuracy = correct / examples if has_accuracy else None
    return Epoch(count, total, accuracy, info, params, helper if has_helper else None)


def summarize_epoch(cum_loss: float | None, avg_acc: float | None, inverse_mvp_loss: float | None = None) -> None:
    """Writes summaries of a pass; accuracy in percent."""
    if cum_loss is not None:
        summary.scalar("train_epoch/neglogprob", cum_loss)
    if avg_acc is not None:
        summary.scalar("train_epoch/avg_acc", 100.0 * avg_acc)
    if inverse_mvp_loss is not None:
        summary.scalar("train_epoch/inverse_mvp_loss", inverse_mvp_loss)


def summarize_evaluation(numbers: dict[str, float]) -> None:
    """Writes summaries of an evaluation; accuracies in percent."""
    for name, number in numbers.items():
        summary.scalar(f"eval/{name}", 100.0 * number if name.endswith("_acc") else number)


def evaluate_uncertainty(
    name: str, ensemble: FunctionEnsemble, params: Tensor, data: LabelledData
) -> tuple[float, float]:
    """`FunctionEnsemble.uncertainty` of networks, with summaries."""
    outliers, inliers = data.need("outlier_test"), data.need("test")
    if params.shape[0] < 2:
        raise ValueError(f"{name}: the disagreement of one network is not defined: use num_particles > 1")
    if not ensemble.is_classifier:
        raise ValueError(f"{name}: eval_uncertainty() is for loss_type='classification'")
    by_entropy, by_variance = ensemble.uncertainty(params, inliers, outliers)
    summarize_evaluation({"auroc_entropy": by_entropy, "auroc_variance": by_variance})
    return by_entropy, by_variance
