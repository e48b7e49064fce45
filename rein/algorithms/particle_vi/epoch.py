"""One pass over training data."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor
from torch.nn import Parameter

from rein.algorithms.particle_vi.labelled_data import Loader, batches
from rein.data_structures import AlgStep, LossInfo
from rein.framework import Algorithm
from rein.nest import Nest


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
