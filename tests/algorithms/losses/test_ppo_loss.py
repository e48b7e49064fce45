"""The clipped surrogate against numbers computed by hand."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from rein.algorithms.losses import PPOLoss
from rein.algorithms.on_policy.ppo import PPOInfo
from rein.data_structures import StepType
from rein.distributions import Categorical

F, M = StepType.FIRST, StepType.MID


def column(values: list[Any], dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(values, dtype=dtype).unsqueeze(1)


def make_info(ratios: list[float], advantages: list[float], new: float = 0.5, **changes: Any) -> PPOInfo:
    """Action 0 was taken, now of probability `new`, at rollout of `new / ratio`."""
    steps = len(ratios)
    logits = torch.log(torch.tensor([new, 1 - new])).expand(steps, 1, 2).clone().requires_grad_()
    info = PPOInfo(
        action=torch.zeros(steps, 1, dtype=torch.int64),
        rollout_log_prob=column([math.log(new / ratio) for ratio in ratios]),
        returns=torch.zeros(steps, 1),
        advantages=column(advantages),
        action_distribution=Categorical(logits=logits),
        value=torch.zeros(steps, 1),
    )
    return info._replace(**changes)


def plain(**settings: Any) -> PPOLoss:
    return PPOLoss(normalize_advantages=False, **settings)


def test_the_ratio_stops_paying_beyond_the_clip_on_both_sides() -> None:
    info = make_info([1.0, 1.5, 1.5, 0.6, 0.6], [2.0, 2.0, -2.0, 2.0, -2.0])
    got = plain().calc_loss(info).extra.pg_loss[:, 0]
    # Clipped where it would pay: a good action made likelier, a bad one made rarer.
    assert got.tolist() == pytest.approx([-2.0, -1.2 * 2, 1.5 * 2, -0.6 * 2, 0.8 * 2])


def test_no_gradient_where_it_is_clipped() -> None:
    info = make_info([1.5, 1.5, 0.6, 0.6], [2.0, -2.0, 2.0, -2.0])
    logits = torch.zeros(4, 1, 2, requires_grad=True)
    plain().calc_loss(info._replace(action_distribution=Categorical(logits=logits))).loss.sum().backward()
    assert logits.grad is not None
    moved = (logits.grad.abs().sum(-1) > 0)[:, 0].tolist()
    assert moved == [False, True, True, False]


def test_the_width_of_the_clip() -> None:
    info = make_info([1.5, 0.6], [1.0, -1.0])
    assert plain(importance_ratio_clipping=0.3).calc_loss(info).loss[:, 0].tolist() == pytest.approx([-1.3, 0.7])
    assert plain(importance_ratio_clipping=0.9).calc_loss(info).loss[:, 0].tolist() == pytest.approx([-1.5, 0.6])


def test_rollout_probabilities_can_come_from_the_distribution() -> None:
    info = make_info([1.5, 0.9], [1.0, 1.0])
    probability = torch.exp(info.rollout_log_prob)
    old = Categorical(logits=torch.log(torch.stack([probability, 1 - probability], -1)).requires_grad_())
    other = info._replace(rollout_log_prob=(), rollout_action_distribution=old)
    assert torch.allclose(plain().calc_loss(info).loss, plain().calc_loss(other).loss)


def test_parts_add_up_with_their_weights() -> None:
    info = make_info([1.0], [1.0], returns=column([3.0]), value=column([1.0]))
    got = plain(td_loss_weight=0.5, entropy_regularization=0.1).calc_loss(info)
    assert got.loss.item() == pytest.approx(-1.0 + 0.5 * 4.0 - 0.1 * math.log(2), rel=1e-5)


def test_advantages_are_normalized_within_the_minibatch_by_default() -> None:
    info = make_info([1.0, 1.0], [1.0, 3.0])
    assert PPOLoss().calc_loss(info).extra.pg_loss[:, 0].tolist() == pytest.approx([1.0, -1.0], rel=1e-4)
    clipped = PPOLoss(advantage_clip=0.5).calc_loss(info).extra.pg_loss[:, 0]
    assert clipped.tolist() == pytest.approx([0.5, -0.5], rel=1e-4)


def test_log_probabilities_are_clipped_if_asked_for() -> None:
    info = make_info([1.0], [1.0], rollout_log_prob=column([-200.0]))
    assert torch.isinf(torch.exp(torch.tensor(math.log(0.5) + 200)))
    bad = info._replace(advantages=column([-1.0]))
    assert torch.isinf(plain().calc_loss(bad).loss).all()
    got = plain(log_prob_clipping=5.0, importance_ratio_clipping=0.2).calc_loss(bad).loss
    assert got.item() == pytest.approx(math.exp(math.log(0.5) + 5.0), rel=1e-5)


def test_check_numerics_names_the_trouble() -> None:
    info = make_info([1.0], [-1.0], rollout_log_prob=column([-200.0]))
    with pytest.raises(FloatingPointError, match="PPOLoss: the policy loss is not finite; ratios reach inf"):
        plain(check_numerics=True).calc_loss(info)
    plain(check_numerics=True).calc_loss(make_info([1.0], [1.0]))


@pytest.mark.parametrize("td_lambda", [0.0, 0.7, 1.0])
def test_advantages_computed_internally_are_those_computed_beforehand(td_lambda: float) -> None:
    torch.manual_seed(0)
    value = torch.randn(5, 2)
    segment = dict(
        step_type=torch.tensor([[F, M], [M, M], [2, M], [F, M], [M, 2]], dtype=torch.int32),
        discount=torch.tensor([[1.0, 1], [1, 1], [0, 1], [1, 1], [1, 1]]),
        reward=torch.randn(5, 2),
    )
    info = PPOInfo(
        action=torch.zeros(5, 2, dtype=torch.int64),
        rollout_log_prob=torch.full((5, 2), math.log(0.4)),
        action_distribution=Categorical(logits=torch.zeros(5, 2, 2)),
        value=value,
    )
    inside = PPOLoss(gamma=0.9, td_lambda=td_lambda, compute_advantages_internally=True)
    outside = PPOLoss(gamma=0.9, td_lambda=td_lambda)
    returns, advantages = outside.returns_and_advantages(PPOInfo(**segment), value)
    first = inside.calc_loss(info._replace(**segment))
    second = outside.calc_loss(info._replace(returns=returns, advantages=advantages))
    assert torch.equal(first.loss, second.loss)
    assert not torch.equal(first.loss, torch.zeros_like(first.loss))


def test_vector_advantages_are_weighted() -> None:
    vector = dict(
        advantages=torch.tensor([[[1.0, 10.0]]]), returns=torch.tensor([[[1.0, 2.0]]]), value=torch.zeros(1, 1, 2)
    )
    info = make_info([1.0], [0.0])._replace(**vector)
    assert plain().calc_loss(info).extra.pg_loss.item() == pytest.approx(-11.0)
    weighted = info._replace(reward_weights=torch.tensor([[[3.0, 0.5]]]))
    got = plain().calc_loss(weighted)
    assert got.extra.pg_loss.item() == pytest.approx(-8.0)
    assert got.extra.td_loss.item() == pytest.approx(2.5)
