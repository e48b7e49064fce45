"""TD losses against numbers computed by hand."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from rein.algorithms.losses import OneStepTDLoss, OneStepTDQRLoss, TDLoss, TDQRLoss
from rein.data_structures import StepType
from rein.framework import Algorithm
from rein.ops import huber_function

F, M, L = StepType.FIRST, StepType.MID, StepType.LAST


class Segment(NamedTuple):
    reward: Tensor
    step_type: Tensor
    discount: Tensor


def segment(reward: list[Any], step_type: list[int] | None = None, discount: list[float] | None = None) -> Segment:
    """One environment, [T, 1]."""
    length = len(reward)
    return Segment(
        torch.tensor(reward, dtype=torch.float32).unsqueeze(1),
        torch.tensor(step_type or [M] * length, dtype=torch.int32).unsqueeze(1),
        torch.tensor(discount or [1.0] * length).unsqueeze(1),
    )


def column(values: list[Any]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).unsqueeze(1)


def targets(info: Segment, value: list[Any], gamma: Any, td_lambda: float) -> list[Any]:
    result: list[Any] = TDLoss(gamma=gamma, td_lambda=td_lambda).compute_td_target(info, column(value))[:, 0].tolist()
    return result


# Rewards 100, 1, 2, 3: the first came before the segment and must not count. Values 10, 20, 30, 40; gamma 0.5.
PLAIN = segment([100, 1, 2, 3])
VALUES = [10.0, 20.0, 30.0, 40.0]


def test_lambda_zero_looks_one_step_ahead() -> None:
    assert targets(PLAIN, VALUES, 0.5, 0.0) == [1 + 10, 2 + 15, 3 + 20]


def test_lambda_one_bootstraps_at_the_end_only() -> None:
    assert targets(PLAIN, VALUES, 0.5, 1.0) == [1 + 0.5 * (2 + 0.5 * 23), 2 + 0.5 * 23, 23]


def test_lambda_in_between_mixes_value_and_next_target() -> None:
    second = 2 + 0.5 * (0.5 * 30 + 0.5 * 23)
    first = 1 + 0.5 * (0.5 * 20 + 0.5 * second)
    assert targets(PLAIN, VALUES, 0.5, 0.5) == pytest.approx([first, second, 23])


def test_lambda_return_is_the_weighted_sum_of_n_step_returns() -> None:
    # G^lambda_0 = (1 - lambda)(G_{0:1} + lambda G_{0:2}) + lambda^2 G_{0:3}
    g1 = 1 + 0.5 * 20
    g2 = 1 + 0.5 * 2 + 0.25 * 30
    g3 = 1 + 0.5 * 2 + 0.25 * 3 + 0.125 * 40
    lam = 0.7
    expected = (1 - lam) * (g1 + lam * g2) + lam**2 * g3
    assert targets(PLAIN, VALUES, 0.5, lam)[0] == pytest.approx(expected)


@pytest.mark.parametrize("td_lambda", [0.0, 0.5, 1.0])
def test_nothing_flows_over_the_end_of_an_episode(td_lambda: float) -> None:
    terminal = segment([0, 1, 2, 50, 60], [F, M, L, F, M], [1, 1, 0, 1, 1])
    got = targets(terminal, [10, 20, 30, 40, 50], 0.5, td_lambda)
    assert got[1] == 2.0  # the terminal state has no value
    expected = {0.0: 1 + 10, 0.5: 1 + 0.5 * (0.5 * 20 + 0.5 * 2), 1.0: 1 + 0.5 * 2}[td_lambda]
    assert got[0] == pytest.approx(expected)
    assert got[2] == 30.0  # nothing is decided at LAST: its target is its value
    assert got[3] == 60 + 0.5 * 50


@pytest.mark.parametrize("td_lambda", [0.0, 0.5, 1.0])
def test_a_time_limit_bootstraps_from_the_last_observation(td_lambda: float) -> None:
    cut = segment([0, 1, 2, 50, 60], [F, M, L, F, M], [1, 1, 1, 1, 1])
    got = targets(cut, [10, 20, 30, 40, 50], 0.5, td_lambda)
    assert got[1] == 2 + 0.5 * 30
    expected = {0.0: 1 + 10, 0.5: 1 + 0.5 * (0.5 * 20 + 0.5 * 17), 1.0: 1 + 0.5 * 17}[td_lambda]
    assert got[0] == pytest.approx(expected)
    assert got[3] == 60 + 0.5 * 50


@pytest.mark.parametrize("td_lambda", [0.0, 0.6, 1.0])
def test_each_dimension_of_a_vector_reward_has_its_own_gamma(td_lambda: float) -> None:
    vector = segment([[9, 9], [1, 10], [2, 20], [3, 30]])
    got = TDLoss(gamma=[0.5, 0.9], td_lambda=td_lambda).compute_td_target(
        vector, column([[10, 1], [20, 2], [30, 3], [40, 4]])
    )
    assert got.shape == (3, 1, 2)
    assert got[:, 0, 0].tolist() == pytest.approx(targets(segment([9, 1, 2, 3]), [10, 20, 30, 40], 0.5, td_lambda))
    assert got[:, 0, 1].tolist() == pytest.approx(targets(segment([9, 10, 20, 30]), [1, 2, 3, 4], 0.9, td_lambda))


def test_a_single_gamma_serves_all_dimensions() -> None:
    vector = segment([[9, 9], [1, 10]])
    got = TDLoss(gamma=0.5, td_lambda=0.0).compute_td_target(vector, column([[0, 0], [4, 8]]))
    assert got[0, 0].tolist() == [1 + 2, 10 + 4]


def test_the_loss_is_squared_and_zero_where_there_is_no_successor() -> None:
    value = column([1.0, 2.0, 3.0, 4.0]).requires_grad_()
    info = TDLoss(gamma=0.5, td_lambda=0.0)(PLAIN, value, column(VALUES))
    assert info.loss[:, 0].tolist() == [(11 - 1) ** 2, (17 - 2) ** 2, (23 - 3) ** 2, 0.0]
    assert torch.equal(info.extra, info.loss)
    info.loss.sum().backward()
    assert value.grad is not None
    assert value.grad[:, 0].tolist() == [-20.0, -30.0, -40.0, 0.0]


def test_no_gradient_flows_into_targets_that_are_the_values_themselves() -> None:
    value = column(VALUES).requires_grad_()
    TDLoss(gamma=0.5, td_lambda=0.0)(PLAIN, value, value).loss.sum().backward()
    assert value.grad is not None
    assert value.grad[:, 0].tolist() == [-2 * (11 - 10), -2 * (17 - 20), -2 * (23 - 30), 0.0]


def test_losses_of_a_vector_reward_are_averaged_over_its_dimensions() -> None:
    vector = segment([[0, 0], [1, 10]])
    info = TDLoss(gamma=1.0, td_lambda=0.0)(vector, column([[0, 0], [0, 0]]), column([[0, 0], [0, 0]]))
    assert info.loss.shape == (2, 1)
    assert info.loss[:, 0].tolist() == [(1 + 100) / 2, 0.0]


def test_the_error_function_gets_targets_first() -> None:
    loss = TDLoss(gamma=0.5, td_error_loss_fn=lambda target, value: target - value, td_lambda=0.0)
    assert loss(PLAIN, column([0, 0, 0, 0]), column(VALUES)).loss[:, 0].tolist() == [11, 17, 23, 0]


def test_gamma_is_readable_and_cannot_be_changed_through_it() -> None:
    loss = TDLoss(gamma=[0.5, 0.9])
    loss.gamma.zero_()
    assert loss.gamma.tolist() == pytest.approx([0.5, 0.9])


class TestNormalizedTargets:
    def test_the_loss_is_divided_by_the_variance_of_targets(self) -> None:
        info = segment([0] * 401)
        generator = torch.Generator().manual_seed(0)
        target_value = 5 + 3 * torch.randn(401, 1, generator=generator)
        value = torch.zeros(401, 1)
        plain = TDLoss(gamma=1.0, td_lambda=0.0)
        normalized = TDLoss(gamma=1.0, td_lambda=0.0, normalize_target=True)
        before = plain(info, value, target_value).loss[:-1]
        after = normalized(info, value, target_value).loss[:-1]
        ratio = (before / after).flatten()
        variance = target_value[1:].var(unbiased=False).item()
        assert ratio.tolist() == pytest.approx([variance] * 400, rel=0.05)

    def test_values_are_not_changed(self) -> None:
        loss = TDLoss(gamma=0.5, td_lambda=0.0, normalize_target=True)
        value = column([1.0, 2.0, 3.0, 4.0]).requires_grad_()
        loss(PLAIN, value, column(VALUES)).loss.sum().backward()
        assert value[:, 0].tolist() == [1, 2, 3, 4]
        assert value.grad is not None
        assert (value.grad[:3] < 0).all()

    def test_a_loss_changes_no_statistics_and_counts_its_own_targets(self) -> None:
        loss = TDLoss(gamma=0.5, td_lambda=0.0, normalize_target=True)
        arguments = (PLAIN, column([1.0, 2.0, 3.0, 4.0]), column(VALUES))
        first = loss(*arguments).loss
        assert loss.get_extra_state() is None
        assert torch.equal(loss(*arguments).loss, first)
        loss.take_targets(PLAIN, column(VALUES))
        state = loss.get_extra_state()
        assert state is not None
        normalizer = loss._target_normalizer[0]
        assert normalizer.mean().item() == pytest.approx(
            loss.compute_td_target(PLAIN, column(VALUES)).mean().item(), rel=1e-5
        )
        other = segment([0, 5, 5, 5])
        before = loss(other, *arguments[1:]).loss
        assert torch.equal(loss(other, *arguments[1:]).loss, before)
        assert not TDLoss().needs_update_infos

    def test_its_statistics_are_saved_and_restored(self) -> None:
        """A resumed run must scale its losses as the run that was stopped did."""

        class Holder(Algorithm):
            def __init__(self) -> None:
                super().__init__(name="Holder")
                self.loss = TDLoss(gamma=0.5, td_lambda=0.0, normalize_target=True)

        first, second = Holder(), Holder()
        for _ in range(3):
            first.loss.take_targets(PLAIN, column(VALUES))
        second.load_state_dict(first.state_dict())
        other = (segment([0, 5, 5, 5]), column([1.0, 2.0, 3.0, 4.0]), column(VALUES))
        assert torch.equal(first.loss(*other).loss, second.loss(*other).loss)


class TestQuantiles:
    def test_one_quantile_is_half_the_huber_loss(self) -> None:
        loss = TDQRLoss(num_quantiles=1, gamma=0.5, td_lambda=0.0)
        value, target_value = column([[0], [0], [0], [0]]), column([[10], [20], [30], [40]])
        got = loss(PLAIN, value, target_value).loss[:, 0]
        # The midpoint of one quantile is 0.5, huber(x) = |x| - 0.5 beyond 1.
        assert got.tolist() == pytest.approx([0.5 * 10.5, 0.5 * 16.5, 0.5 * 22.5, 0.0])

    def test_two_quantiles_by_hand(self) -> None:
        info = segment([0, 0], discount=[1, 1])
        value, target_value = column([[0.0, 4.0], [0, 0]]), column([[0, 0], [2.0, 6.0]])
        loss = TDQRLoss(num_quantiles=2, gamma=1.0, td_error_loss_fn=lambda e: e.abs(), td_lambda=0.0)
        # Levels 0.25, 0.75. Errors of quantile 0: 2, 6, both above: weight 0.25. Of quantile 4: -2 (0.25), 2 (0.75).
        first, second = 0.25 * (2 + 6) / 2, (0.25 * 2 + 0.75 * 2) / 2
        assert loss(info, value, target_value).loss[:, 0].tolist() == pytest.approx([(first + second) / 2, 0])
        summed = TDQRLoss(
            num_quantiles=2, gamma=1.0, td_error_loss_fn=lambda e: e.abs(), td_lambda=0.0, sum_over_quantiles=True
        )
        assert summed(info, value, target_value).loss[:, 0].tolist() == pytest.approx([first + second, 0])

    def test_lambda_one_backs_up_every_quantile(self) -> None:
        loss = TDQRLoss(num_quantiles=2, gamma=0.5, td_lambda=1.0)
        got = loss.compute_td_target(PLAIN, column([[0, 0], [0, 0], [0, 0], [8, 16]]))
        assert got[:, 0, 0].tolist() == [1 + 0.5 * (2 + 0.5 * (3 + 4)), 2 + 0.5 * 7, 7]
        assert got[:, 0, 1].tolist() == [1 + 0.5 * (2 + 0.5 * (3 + 8)), 2 + 0.5 * 11, 11]

    @pytest.mark.parametrize("td_lambda", [0.0, 1.0])
    def test_a_terminal_state_has_no_quantiles(self, td_lambda: float) -> None:
        terminal = segment([0, 1, 2, 50], [F, M, L, F], [1, 1, 0, 1])
        loss = TDQRLoss(num_quantiles=2, gamma=0.5, td_lambda=td_lambda)
        got = loss.compute_td_target(terminal, column([[1, 2], [3, 4], [5, 6], [7, 8]]))
        assert got[1, 0].tolist() == [2, 2]

    def test_several_rewards_have_quantiles_each_and_their_own_gamma(self) -> None:
        info = segment([[0, 0], [1, 10]])
        value, target_value = torch.zeros(2, 1, 2, 3), torch.full((2, 1, 2, 3), 4.0)
        loss = TDQRLoss(num_quantiles=3, gamma=[0.5, 0.25], td_error_loss_fn=lambda e: e.abs(), td_lambda=0.0)
        assert loss.compute_td_target(info, target_value)[0, 0].tolist() == [[3.0] * 3, [11.0] * 3]
        got = loss(info, value, target_value).loss
        assert got.shape == (2, 1)
        levels = (1 / 6 + 3 / 6 + 5 / 6) / 3
        assert got[:, 0].tolist() == pytest.approx([levels * (3 + 11) / 2, 0])

    def test_impossible_arguments_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"td_lambda is 0\.5"):
            TDQRLoss(td_lambda=0.5)
        with pytest.raises(ValueError, match="value has 2 quantiles, the loss was made for 3"):
            TDQRLoss(num_quantiles=3)(PLAIN, torch.zeros(4, 1, 2), torch.zeros(4, 1, 2))

    def test_gradients_reach_the_predicted_quantiles_only(self) -> None:
        value = torch.zeros(4, 1, 5, requires_grad=True)
        target_value = torch.ones(4, 1, 5, requires_grad=True)
        OneStepTDQRLoss(num_quantiles=5)(PLAIN, value, target_value).loss.sum().backward()
        assert value.grad is not None
        assert (value.grad[:3] != 0).all()
        assert (value.grad[3] == 0).all()
        assert target_value.grad is None


def test_one_step_losses_are_their_lambda_zero_relatives() -> None:
    value, target_value = column([1.0, 2.0, 3.0, 4.0]), column(VALUES)
    one = OneStepTDLoss(gamma=0.5)(PLAIN, value, target_value).loss
    assert torch.equal(one, TDLoss(gamma=0.5, td_lambda=0.0)(PLAIN, value, target_value).loss)
    value, target_value = torch.rand(4, 1, 7), torch.rand(4, 1, 7)
    quantiles = OneStepTDQRLoss(7, 0.5, huber_function, sum_over_quantiles=True)(PLAIN, value, target_value).loss
    other = TDQRLoss(7, 0.5, td_lambda=0.0, sum_over_quantiles=True)(PLAIN, value, target_value).loss
    assert torch.equal(quantiles, other)


@pytest.mark.parametrize("td_lambda", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("reward", [[7.0, 1.0], [[7.0, 5.0], [1.0, 2.0]]])
def test_values_of_a_transition_may_be_given_apart(reward: list[Any], td_lambda: float) -> None:
    info = segment(reward, [F, L], [1.0, 0.5])
    value, target_value = column(reward) + 2.0, column(reward) * 3.0
    loss = TDLoss(gamma=0.9, td_lambda=td_lambda)
    assert loss.takes_single_transitions
    whole, apart = loss(info, value, target_value).loss, loss(info, value[:1], target_value[1:]).loss
    assert torch.equal(apart, whole[:1])
    assert whole[0].item() > 0


def test_who_must_be_given_all_values() -> None:
    assert OneStepTDLoss().takes_single_transitions
    assert not OneStepTDLoss(debug_summaries=True).takes_single_transitions
    assert not OneStepTDQRLoss().takes_single_transitions
