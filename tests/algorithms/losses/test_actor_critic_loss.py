"""The actor-critic loss against numbers computed by hand; every parameter changes what it says, and only that."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from rein.algorithms.losses import ActorCriticLoss
from rein.algorithms.on_policy.actor_critic import ActorCriticInfo
from rein.data_structures import LossInfo, StepType
from rein.distributions import Categorical

F, M, L = StepType.FIRST, StepType.MID, StepType.LAST
P = [0.25, 0.75]


def column(values: list[Any], dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(values, dtype=dtype).unsqueeze(1)


def make_info(**changes: Any) -> ActorCriticInfo:
    """Two actions with probabilities 0.25 and 0.75; values 10, 20, 30; rewards 1, 2 after actions 0, 1."""
    logits = torch.log(torch.tensor(P)).expand(3, 1, 2).clone().requires_grad_()
    info = ActorCriticInfo(
        step_type=column([F, M, M], torch.int32),
        discount=column([1.0, 1.0, 1.0]),
        reward=column([100.0, 1.0, 2.0]),
        action=column([0, 1, 0], torch.int64),
        action_distribution=Categorical(logits=logits),
        value=column([10.0, 20.0, 30.0]).requires_grad_(),
    )
    return info._replace(**changes)


def loss_of(loss: ActorCriticLoss, **changes: Any) -> LossInfo:
    return loss.calc_loss(make_info(**changes))


# gamma 0.5: returns 1 + 0.5 (2 + 0.5 * 30) = 9.5 and 17; advantages -0.5 and -3.
RETURNS, ADVANTAGES = [9.5, 17.0, 30.0], [-0.5, -3.0, 0.0]


def test_returns_minus_values_by_default() -> None:
    got = loss_of(ActorCriticLoss(gamma=0.5))
    pg = [-a * math.log(P[i]) for a, i in zip(ADVANTAGES, [0, 1, 0], strict=True)]
    td = [(g - v) ** 2 for g, v in zip(RETURNS, [10, 20, 30], strict=True)]
    assert got.extra.pg_loss[:, 0].tolist() == pytest.approx(pg)
    assert got.extra.td_loss[:, 0].tolist() == pytest.approx(td)
    assert got.extra.neg_entropy == ()
    assert got.loss[:, 0].tolist() == pytest.approx([a + b for a, b in zip(pg, td, strict=True)])


def test_gae_by_hand() -> None:
    second = 2 + 15 - 20
    first = (1 + 10 - 10) + 0.5 * 0.8 * second
    loss = ActorCriticLoss(gamma=0.5, use_gae=True, td_lambda=0.8)
    returns, advantages = loss.returns_and_advantages(make_info(), column([10.0, 20.0, 30.0]))
    assert advantages[:, 0].tolist() == pytest.approx([first, second, 0])
    assert returns[:, 0].tolist() == pytest.approx([first + 10, second + 20, 30])


def test_values_can_learn_from_plain_returns_beside_gae() -> None:
    loss = ActorCriticLoss(gamma=0.5, use_gae=True, td_lambda=0.8, use_td_lambda_return=False)
    returns, advantages = loss.returns_and_advantages(make_info(), column([10.0, 20.0, 30.0]))
    assert returns[:, 0].tolist() == pytest.approx(RETURNS)
    assert advantages[:, 0].tolist() == pytest.approx([1 + 0.4 * -3, -3, 0])


def test_gae_with_lambda_one_is_the_return_minus_the_value() -> None:
    plain = ActorCriticLoss(gamma=0.5).returns_and_advantages(make_info(), column([10.0, 20.0, 30.0]))
    gae = ActorCriticLoss(gamma=0.5, use_gae=True, td_lambda=1.0).returns_and_advantages(
        make_info(), column([10.0, 20.0, 30.0])
    )
    for a, b in zip(plain, gae, strict=True):
        assert torch.allclose(a, b)


@pytest.mark.parametrize("use_gae", [False, True])
def test_episode_ends_and_time_limits(use_gae: bool) -> None:
    loss = ActorCriticLoss(gamma=0.5, use_gae=use_gae, td_lambda=0.8)
    step_type = column([F, L, F], torch.int32)
    value = column([10.0, 20.0, 30.0])
    for discount, bootstrap in ((0.0, 0.0), (1.0, 10.0)):
        info = make_info(step_type=step_type, discount=column([1.0, discount, 1.0]))
        returns, advantages = loss.returns_and_advantages(info, value)
        assert returns[0].item() == pytest.approx(1 + bootstrap)
        assert advantages[0].item() == pytest.approx(1 + bootstrap - 10)
        assert advantages[1].item() == 0.0
        assert returns[1].item() == pytest.approx(20.0)


def test_gradients_go_where_they_belong() -> None:
    info = make_info()
    logits = info.action_distribution.logits
    ActorCriticLoss(gamma=0.5).calc_loss(info).loss.sum().backward()
    # d(value loss) only: advantages and returns are constants.
    assert info.value.grad[:, 0].tolist() == pytest.approx([2 * (10 - 9.5), 2 * (20 - 17), 0])
    assert logits.requires_grad


def test_policy_gradient_by_hand() -> None:
    logits = torch.zeros(3, 1, 2, requires_grad=True)
    loss = ActorCriticLoss(gamma=0.5, td_loss_weight=0.0)
    loss.calc_loss(make_info(action_distribution=Categorical(logits=logits))).loss.sum().backward()
    assert logits.grad is not None
    # d(-A log p_a)/d logits = -A (onehot - p)
    assert logits.grad[0, 0].tolist() == pytest.approx([0.5 * 0.5, 0.5 * -0.5])
    assert logits.grad[1, 0].tolist() == pytest.approx([3 * -0.5, 3 * 0.5])
    assert logits.grad[2, 0].tolist() == [0, 0]


def test_td_loss_weight_weighs_the_value_loss_only() -> None:
    one, half = loss_of(ActorCriticLoss(gamma=0.5)), loss_of(ActorCriticLoss(gamma=0.5, td_loss_weight=0.5))
    assert torch.allclose(half.loss, one.extra.pg_loss + 0.5 * one.extra.td_loss)
    assert torch.equal(half.extra.td_loss, one.extra.td_loss)


def test_entropy_is_rewarded() -> None:
    plain = loss_of(ActorCriticLoss(gamma=0.5))
    regular = loss_of(ActorCriticLoss(gamma=0.5, entropy_regularization=0.1))
    entropy = -sum(p * math.log(p) for p in P)
    assert (plain.loss - regular.loss)[:, 0].tolist() == pytest.approx([0.1 * entropy] * 3, rel=1e-4)
    assert regular.extra.neg_entropy[:, 0].tolist() == pytest.approx([-entropy] * 3)


def test_entropy_has_a_gradient() -> None:
    logits = torch.log(torch.tensor(P)).expand(3, 1, 2).clone().requires_grad_()
    zero = column([0.0, 0.0, 0.0])
    loss = ActorCriticLoss(gamma=0.5, td_loss_weight=0.0, entropy_regularization=1.0)
    loss.calc_loss(
        make_info(action_distribution=Categorical(logits=logits), reward=zero, value=zero)
    ).loss.sum().backward()
    assert logits.grad is not None
    assert logits.grad[0, 0, 0] < 0  # the rare action becomes likelier
    assert logits.grad[0, 0, 1] > 0


def test_advantages_are_normalized_before_they_are_clipped() -> None:
    plain = loss_of(ActorCriticLoss(gamma=0.5))
    got = loss_of(ActorCriticLoss(gamma=0.5, normalize_advantages=True))
    advantages = torch.tensor(ADVANTAGES)
    expected = (advantages - advantages.mean()) / advantages.std(unbiased=False)
    log_prob = torch.tensor([math.log(P[0]), math.log(P[1]), math.log(P[0])])
    assert torch.allclose(got.extra.pg_loss[:, 0], -expected * log_prob, atol=1e-5)
    assert torch.equal(got.extra.td_loss, plain.extra.td_loss)
    clipped = loss_of(ActorCriticLoss(gamma=0.5, normalize_advantages=True, advantage_clip=0.9))
    assert torch.allclose(clipped.extra.pg_loss[:, 0], -expected.clamp(-0.9, 0.9) * log_prob, atol=1e-5)


def test_advantages_are_clipped_on_both_sides() -> None:
    got = loss_of(ActorCriticLoss(gamma=0.5, advantage_clip=1.0), reward=column([0.0, 1.0, 200.0]))
    # Returns 1 + 0.5 * 215, 215: both advantages are above 1.
    assert got.extra.pg_loss[:2, 0].tolist() == pytest.approx([-math.log(P[0]), -math.log(P[1])])
    assert got.extra.td_loss[1].item() == pytest.approx((215 - 20) ** 2)
    low = loss_of(ActorCriticLoss(gamma=0.5, advantage_clip=1.0), reward=column([0.0, 1.0, -200.0]))
    assert low.extra.pg_loss[1].item() == pytest.approx(math.log(P[1]))


def test_the_error_function_gets_returns_first() -> None:
    loss = ActorCriticLoss(gamma=0.5, td_error_loss_fn=lambda returns, value: returns - value)
    assert loss_of(loss).extra.td_loss[:, 0].tolist() == pytest.approx([-0.5, -3.0, 0.0])


class TestVectorReward:
    changes = dict(
        reward=column([[0.0, 0.0], [1.0, 10.0], [2.0, 20.0]]), value=column([[10.0, 1.0], [20.0, 2.0], [30.0, 3.0]])
    )

    def expected(self) -> tuple[list[float], list[float]]:
        first = [1 + 0.5 * 17 - 10, 17 - 20, 0]
        second = [10 + 0.9 * (20 + 0.9 * 3) - 1, 20 + 0.9 * 3 - 2, 0]
        return first, second

    def test_each_dimension_has_its_gamma_and_advantages_are_summed(self) -> None:
        got = loss_of(ActorCriticLoss(gamma=[0.5, 0.9]), **self.changes)
        first, second = self.expected()
        assert got.extra.pg_loss[0].item() == pytest.approx(-(first[0] + second[0]) * math.log(P[0]))
        assert got.extra.td_loss[0].item() == pytest.approx((first[0] ** 2 + second[0] ** 2) / 2, rel=1e-5)
        assert got.loss.shape == (3, 1)

    def test_weights_weigh_advantages_but_not_values(self) -> None:
        weights = torch.tensor([2.0, -1.0]).expand(3, 1, 2)
        got = loss_of(ActorCriticLoss(gamma=[0.5, 0.9]), **self.changes, reward_weights=weights)
        first, second = self.expected()
        assert got.extra.pg_loss[1].item() == pytest.approx(-(2 * first[1] - second[1]) * math.log(P[1]))
        assert got.extra.td_loss[1].item() == pytest.approx((first[1] ** 2 + second[1] ** 2) / 2, rel=1e-5)

    def test_clipping_applies_to_the_weighted_sum(self) -> None:
        got = loss_of(ActorCriticLoss(gamma=[0.5, 0.9], advantage_clip=1.0), **self.changes)
        assert got.extra.pg_loss[0].item() == pytest.approx(-math.log(P[0]))
