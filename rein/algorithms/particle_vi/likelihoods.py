"""Negative log likelihoods of labels under many networks; B examples, N networks.

The likelihood is summed over the batch and not scaled up to the data set. Particles that are trained on batches of B out
of M examples therefore match the posterior with `entropy_regularization` B / M; 1 spreads them wider by M / B.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

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
    batch, members, _ = outputs.shape
    labels = targets.reshape(batch).long()
    log_probabilities = _ClassesFirst.apply(outputs).log_softmax(0)  # type: ignore[no-untyped-call]
    chosen = log_probabilities.gather(0, labels.expand(1, members, batch))
    with torch.no_grad():
        accuracy = (vote(log_probabilities.permute(2, 1, 0)) == labels).float().mean()
    return LossInfo(loss=-chosen.sum((0, 2)), extra=accuracy)


class _ClassesFirst(torch.autograd.Function):
    """From [B, N, C] to [C, N, B] and, for gradients, back.

    The softmax of a few classes is many times faster across long rows of examples than along short rows of classes. The
    gradient is laid out as the networks made their outputs, [N, B, C]: products with other layouts take twice the time.
    """

    @staticmethod
    def forward(ctx: Any, outputs: Tensor) -> Tensor:  # type: ignore[override]
        return outputs.permute(2, 1, 0).contiguous()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient.permute(1, 2, 0).contiguous().transpose(0, 1)
