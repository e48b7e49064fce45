"""Negative log likelihoods of labels under many networks; B examples, N networks.

The likelihood is summed over the batch and not scaled up to the data set. Particles that are trained on batches of B out
of M examples therefore match the posterior with `entropy_regularization` B / M; 1 spreads them wider by M / B.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from rein.data_structures import LossInfo
from rein.ops import hard_vote, soft_vote

LOSS_TYPES = ("classification", "regression")
VOTES: dict[str, Callable[[Tensor], Tensor]] = {"soft": soft_vote, "hard": hard_vote}


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


def classification_loss(outputs: Tensor, targets: Tensor, vote: Callable[[Tensor], Tensor] = soft_vote) -> LossInfo:
    """Cross entropies.

    Args:
        outputs: [B, N, C] logits.
        targets: [B] classes.
        vote: how networks decide together.

    Returns:
        `loss` [N], summed over the batch, and as `extra` the [] share of examples that the vote gets right.
    """
    batch, members, classes = outputs.shape
    labels = targets.reshape(batch).long()
    flat = labels.unsqueeze(1).expand(batch, members).reshape(-1)
    losses = F.cross_entropy(outputs.reshape(-1, classes), flat, reduction="none").reshape(batch, members)
    with torch.no_grad():
        accuracy = (vote(outputs) == labels).float().mean()
    return LossInfo(loss=losses.sum(0), extra=accuracy)
