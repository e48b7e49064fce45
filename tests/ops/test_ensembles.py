"""Votes, uncertainty and calibration, by hand and by brute force."""

import math

import pytest
import torch

from rein import ops


def test_the_soft_vote_weighs_confidence_and_the_hard_vote_does_not() -> None:
    probabilities = torch.tensor([[[0.51, 0.49], [0.51, 0.49], [0.01, 0.99]]])
    assert ops.soft_vote(probabilities.log()).tolist() == [1]
    assert ops.soft_vote(probabilities.log() + 5.0).tolist() == [1]
    assert ops.soft_vote(probabilities.log(), are_normalized=True).tolist() == [1]
    assert ops.hard_vote(probabilities.log()).tolist() == [0]


def test_the_hard_vote_takes_the_mode_and_breaks_ties_at_random() -> None:
    torch.manual_seed(0)
    members = torch.eye(3)[torch.tensor([2, 1, 1, 0])].expand(50, 4, 3)
    assert ops.hard_vote(members).unique().tolist() == [1]
    tied = torch.eye(3)[torch.tensor([0, 2])].expand(200, 2, 3)
    chosen = ops.hard_vote(tied)
    assert chosen.unique().tolist() == [0, 2]
    assert 60 < int((chosen == 0).sum()) < 140


def test_entropy_and_disagreement_by_hand() -> None:
    probabilities = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]])
    torch.testing.assert_close(ops.predictive_entropy(probabilities), torch.full((2,), math.log(2.0)))
    torch.testing.assert_close(ops.disagreement(probabilities), torch.tensor([1.0, 0.0]))


def test_the_area_under_the_curve_counts_pairs() -> None:
    torch.manual_seed(0)
    scores, positive = torch.randint(0, 6, (60,)).float(), torch.rand(60) < 0.4
    wins = [
        1.0 if a > b else 0.5 if a == b else 0.0 for a in scores[positive].tolist() for b in scores[~positive].tolist()
    ]
    assert ops.area_under_roc(scores, positive) == pytest.approx(sum(wins) / len(wins))
    assert ops.area_under_roc(torch.tensor([1.0, 2.0]), torch.tensor([False, True])) == 1.0
    with pytest.raises(ValueError, match="at least one of each"):
        ops.area_under_roc(scores, torch.zeros(60, dtype=torch.bool))


def test_calibration_by_hand() -> None:
    probabilities = torch.tensor([[0.95, 0.05], [0.93, 0.07], [0.4, 0.6]])
    counts, confidence, accuracy = ops.calibration_bins(probabilities, torch.tensor([0, 1, 1]), 10)
    assert counts[[6, 9]].tolist() == [1.0, 2.0]
    torch.testing.assert_close(confidence[9], torch.tensor(0.94))
    assert accuracy[[6, 9]].tolist() == [1.0, 0.5]
    error = ops.expected_calibration_error(probabilities, torch.tensor([0, 1, 1]), 10)
    assert error == pytest.approx((2 * 0.44 + 0.4) / 3)


def test_the_roc_curve_encloses_the_area() -> None:
    torch.manual_seed(0)
    scores, positive = torch.randint(0, 6, (60,)).float(), torch.rand(60) < 0.4
    false, true = ops.roc_curve(scores, positive)
    assert (false[0], true[0], false[-1], true[-1]) == (0.0, 0.0, 1.0, 1.0)
    assert torch.trapezoid(true, false).item() == pytest.approx(ops.area_under_roc(scores, positive))
