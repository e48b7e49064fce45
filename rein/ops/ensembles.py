"""What many predictions say together: votes, uncertainty, and how good both are. B examples, N members, C classes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def soft_vote(logits: Tensor, are_normalized: bool = False) -> Tensor:
    """The class with the greatest mean probability.

    Args:
        logits: [B, N, C].
        are_normalized: they are logarithms of probabilities, which need no softmax.

    Returns:
        [B] classes.
    """
    probabilities = logits.exp() if are_normalized else logits.softmax(-1)
    return probabilities.mean(1).argmax(-1)


def hard_vote(logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """The class that most members choose; one of them at random where several have as many votes.

    Args:
        logits: [B, N, C].
        generator: of the random choice.

    Returns:
        [B] classes.
    """
    votes = F.one_hot(logits.argmax(-1), logits.shape[-1]).sum(1)
    # Less than one vote, so that it decides between equal numbers only.
    tie_break = torch.rand(votes.shape, generator=generator, device=votes.device)
    return (votes + 0.5 * tie_break).argmax(-1)


def predictive_entropy(probabilities: Tensor) -> Tensor:
    """Entropy of the mean of the members' distributions, in nats.

    Args:
        probabilities: [B, N, C].

    Returns:
        [B].
    """
    return torch.special.entr(probabilities.mean(1)).sum(-1)


def disagreement(predictions: Tensor) -> Tensor:
    """Variance among the members, summed over outputs.

    Args:
        predictions: [B, N, C], N > 1.

    Returns:
        [B].
    """
    return predictions.var(1).sum(-1)


def area_under_roc(scores: Tensor, is_positive: Tensor) -> float:
    """The probability that a positive example has a greater score than a negative one; equal scores count half.

    Mann & Whitney (1947): by the sum of the ranks of the positive examples.

    Args:
        scores: [B].
        is_positive: [B] bool, with at least one of each kind.
    """
    positives, total = int(is_positive.sum()), scores.numel()
    negatives = total - positives
    if positives == 0 or negatives == 0:
        raise ValueError(f"{positives} positive and {negatives} negative examples: at least one of each is needed")
    _, group, counts = torch.unique(scores.double(), return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    ranks = (last - 0.5 * (counts - 1))[group]
    rank_sum = ranks[is_positive.bool()].sum().item()
    return (rank_sum - 0.5 * positives * (positives + 1)) / (positives * negatives)


def roc_curve(scores: Tensor, is_positive: Tensor) -> tuple[Tensor, Tensor]:
    """Shares of negative and of positive examples with at least each score, from none to all.

    Args:
        scores: [B].
        is_positive: [B] bool, with at least one of each kind.

    Returns:
        [K] false positive rates and [K] true positive rates, both increasing from 0 to 1.
    """
    order = scores.argsort(descending=True)
    hits = is_positive[order].bool().double()
    is_last = torch.ones_like(hits, dtype=torch.bool)
    is_last[:-1] = scores[order][1:] != scores[order][:-1]

    def rate(kind: Tensor) -> Tensor:
        return torch.cat([kind.new_zeros(1), kind.cumsum(0)[is_last] / kind.sum()])

    return rate(1.0 - hits), rate(hits)


def calibration_bins(probabilities: Tensor, labels: Tensor, num_bins: int = 15) -> tuple[Tensor, Tensor, Tensor]:
    """Groups predictions by their confidence, the greatest probability, in bins of equal width.

    Guo et al. (2017), "On Calibration of Modern Neural Networks", section 2.

    Args:
        probabilities: [B, C].
        labels: [B] classes.
        num_bins: number of bins of [0, 1].

    Returns:
        [num_bins] number of predictions, mean confidence, and accuracy; both 0 in empty bins.
    """
    confidence, choice = probabilities.max(-1)
    index = (confidence * num_bins).long().clamp(max=num_bins - 1)
    zeros = confidence.new_zeros(num_bins)
    counts = zeros.index_add(0, index, torch.ones_like(confidence))
    total_confidence = zeros.index_add(0, index, confidence)
    correct = zeros.index_add(0, index, (choice == labels).to(confidence.dtype))
    divisor = counts.clamp(min=1.0)
    return counts, total_confidence / divisor, correct / divisor


def expected_calibration_error(probabilities: Tensor, labels: Tensor, num_bins: int = 15) -> float:
    """Mean distance between confidence and accuracy over the bins of `calibration_bins`.

    Args:
        probabilities: [B, C].
        labels: [B] classes.
        num_bins: number of bins of [0, 1].
    """
    counts, confidence, accuracy = calibration_bins(probabilities, labels, num_bins)
    return float((counts * (confidence - accuracy).abs()).sum() / counts.sum())
