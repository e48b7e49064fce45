"""Bounds on mutual information by hand."""

import math

import pytest
import torch

from rein import ops

JOINT = torch.tensor([1.0, 2.0])
MARGINAL = torch.tensor([0.0, math.log(3.0)])


def test_donsker_varadhan_by_hand() -> None:
    loss, estimate = ops.donsker_varadhan(JOINT, ops.clipped_ratio(MARGINAL), torch.tensor(4.0))
    torch.testing.assert_close(loss, torch.tensor([0.25 - 1.0, 0.75 - 2.0]))
    torch.testing.assert_close(estimate.mean(), torch.tensor(1.5 - math.log(2.0)))


def test_kullback_leibler_by_hand() -> None:
    loss, estimate = ops.kullback_leibler(JOINT, ops.clipped_ratio(MARGINAL))
    torch.testing.assert_close(estimate, torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(loss, -estimate)


def test_jensen_shannon_by_hand() -> None:
    loss, estimate = ops.jensen_shannon(torch.zeros(1), torch.tensor([math.log(3.0)]))
    assert estimate.item() == pytest.approx(-math.log(2.0) - math.log(4.0) + math.log(4.0))
    assert loss.item() == -estimate.item()


def test_ratios_do_not_overflow() -> None:
    assert ops.clipped_ratio(torch.tensor([500.0])).item() == pytest.approx(math.exp(20.0), rel=1e-5)


def test_information_of_gaussian_pairs() -> None:
    correlation = torch.full((20,), 0.5)
    assert ops.gaussian_mutual_information(correlation).item() == pytest.approx(-10 * math.log(0.75))
