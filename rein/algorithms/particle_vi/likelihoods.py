"""Negative log likelihoods of labels under many networks; B examples, N networks.

The likelihood is summed over the batch and not scaled up to the data set. Particles that are trained on batches of B out
of M examples therefore match the posterior with `entropy_regularization` B / M; 1 spreads them wider by M / B.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rein.data_structures import LossInfo
from rein.ops import hard_vote, soft_vote

LOSS_TYPES = ("classification", "regression")
VOTES: dict[str, Callable[[Tensor], Tensor]] = {"soft": partial(soft_vote, are_normalized=True), "hard": hard_vote}
"""How networks decide together, from logarithms of probabilities [B, N, C] to classes [B]."""


def regression_loss(outputs: Tensor, targets: Tensor) -> LossInfo:
    """Half of the squared errors, the negative log likelihood of normal errors of deviation 1.

    Args:
        outputs: [B, N, O].
        targets: [B, O], or [B] if O is 1.

    Returns:
        `loss` [N], summed over the batch and the outputs.
    """
    batch, _, size = outputs.shape
    if targets.numel() != batch * size:
        raise ValueError(f"targets of {tuple(targets.shape)} do not fit outputs of {(batch, size)}: set output_dim")
    error = outputs - targets.reshape(batch, 1, size)
    return LossInfo(loss=0.5 * error.square().sum((0, 2)))


def classification_loss(outputs: Tensor, targets: Tensor, vote: Callable[[Tensor], Tensor] = VOTES["soft"]) -> LossInfo:
    """Cross entropies.

    Args:
        outputs: [B, N, C] logits.
        targets: [B] classes.
        vote: how networks decide together, see `VOTES`.

    Returns:
        `loss` [N], summed over the batch, and as `extra` the [] share of examples that the vote gets right.
    """
    batch, members, classes = outputs.shape
    labels = targets.reshape(batch).long()
    try:
        loss, log_probabilities = _CrossEntropy.apply(outputs, labels.expand(1, members, batch))  # type: ignore[no-untyped-call]
    except (RuntimeError, IndexError) as error:
        lowest, highest = int(labels.min()), int(labels.max())
        if lowest >= 0 and highest < classes:
            raise
        raise ValueError(
            f"labels go from {lowest} to {highest} and there are {classes} outputs: count classes from 0 and set output_dim"
        ) from error
    with torch.no_grad():
        accuracy = (vote(log_probabilities.permute(2, 1, 0)) == labels).float().mean()
    return LossInfo(loss=loss, extra=accuracy)


class _CrossEntropy(torch.autograd.Function):
    """From logits [B, N, C] and labels [1, N, B] to the loss [N] and logarithms of probabilities [C, N, B].

    The softmax of a few classes is many times faster across long rows of examples than along short rows of classes. The
    gradient, that of the loss alone, is laid out as the networks made their outputs, [N, B, C]: products with other
    layouts take twice the time.
    """

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        log_probabilities = outputs.permute(2, 1, 0).contiguous().log_softmax(0)
        ctx.mark_non_differentiable(log_probabilities)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(log_probabilities, labels)
        return -log_probabilities.gather(0, labels).sum((0, 2)), log_probabilities

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor, None]:  # type: ignore[override]
        log_probabilities, labels = ctx.saved_tensors
        error = log_probabilities.exp()
        error.scatter_add_(0, labels, error.new_tensor(-1.0).expand(labels.shape))
        return (error * gradient.unsqueeze(1)).permute(1, 2, 0).contiguous().transpose(0, 1), None
