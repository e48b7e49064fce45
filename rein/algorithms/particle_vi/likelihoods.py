"""Negative log likelihoods of labels under many networks; B examples, N networks.

The likelihood is summed over the batch and not scaled up to the data set. Particles that are trained on batches of B out
of M examples therefore match the posterior with `entropy_regularization` B / M; 1 spreads them wider by M / B.
"""

from collections.abc import Callable
from functools import partial

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
    log_probabilities = outputs.log_softmax(-1)
    chosen = log_probabilities.gather(-1, labels.view(batch, 1, 1).expand(batch, members, 1))
    with torch.no_grad():
        accuracy = (vote(log_probabilities) == labels).float().mean()
    return LossInfo(loss=-chosen.sum((0, 2)), extra=accuracy)
