"""V-trace by hand: two transitions, one action twice as likely as when it was taken, one half as likely."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from rein.algorithms.losses import VTraceLoss
from rein.algorithms.on_policy.ppo import PPOInfo
from rein.data_structures import StepType
from rein.distributions import Categorical

F, M, L = StepType.FIRST, StepType.MID, StepType.LAST
P = [0.25, 0.75]


def column(values: list[Any], dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(values, dtype=dtype).unsqueeze(1)


def info(step_types: list[Any]) -> PPOInfo:
    logits = torch.log(torch.tensor(P)).expand(3, 1, 2).clone().requires_grad_()
    return PPOInfo(
        step_type=column(step_types, torch.int32),
        discount=column([1.0, 1.0, 1.0]),
        reward=column([100.0, 1.0, 2.0]),
        action=column([0, 1, 0], torch.int64),
        rollout_log_prob=column([math.log(0.125), math.log(1.5), 0.0]),
        action_distribution=Categorical(logits=logits),
        value=column([10.0, 20.0, 30.0]).requires_grad_(),
    )


def test_targets_and_advantages_by_hand() -> None:
    """Ratios 2 and 0.5; gamma 0.5, rho 1.5, c 1."""
    loss = VTraceLoss(gamma=0.5, rho_clip=1.5, trace_clip=1.0, td_loss_weight=2.0)
    got = loss.calc_loss(info([F, M, M]))
    errors = [1.5 * (1 + 0.5 * 20 - 10), 0.5 * (2 + 0.5 * 30 - 20)]
    targets = [10 + errors[0] + 0.5 * 1.0 * errors[1], 20 + errors[1], 30]
    advantages = [1.5 * (1 + 0.5 * targets[1] - 10), errors[1], 0.0]
    pg = [-a * math.log(P[i]) for a, i in zip(advantages, [0, 1, 0], strict=True)]
    td = [(g - v) ** 2 for g, v in zip(targets, [10, 20, 30], strict=True)]
    assert got.extra.pg_loss[:, 0].tolist() == pytest.approx(pg)
    assert got.extra.td_loss[:, 0].tolist() == pytest.approx(td)
    assert got.loss[:, 0].tolist() == pytest.approx([a + 2 * b for a, b in zip(pg, td, strict=True)])


def test_nothing_flows_back_over_the_end_of_an_episode() -> None:
    got = VTraceLoss(gamma=0.5, rho_clip=1.5).calc_loss(info([F, L, F]))
    # The first transition ends by a time limit: it bootstraps from the value of its last state.
    assert got.extra.td_loss[0, 0].item() == pytest.approx((1.5 * (1 + 0.5 * 20 - 10)) ** 2)


def test_without_correction_ratios_are_one() -> None:
    got = VTraceLoss(gamma=0.5, correct=False).calc_loss(info([F, M, M]))
    second = 2 + 0.5 * 30 - 20
    first = (1 + 0.5 * 20 - 10) + 0.5 * second
    assert got.extra.td_loss[:, 0].tolist() == pytest.approx([first**2, second**2, 0.0])


def test_clips_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="rho_clip is 0"):
        VTraceLoss(rho_clip=0)
