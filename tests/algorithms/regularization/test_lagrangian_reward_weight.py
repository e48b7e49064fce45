import pytest
import torch
import torch.nn.functional as F

from rein.algorithms.regularization import (
    LagInfo,
    LagrangianPredRewardWeightAlgorithm,
    LagrangianRewardWeightAlgorithm,
)
from rein.data_structures import TimeStep
from rein.optimizers import SGD
from rein.specs import TensorSpec
from rein.statistics import EMAverager

SPEC = TensorSpec((3,))


def make(**arguments):
    settings = dict(reward_thresholds=[None, 0.5, -1.0], optimizer=SGD(lr=0.1), reward_weight_normalization=False)
    return LagrangianRewardWeightAlgorithm(SPEC, **{**settings, **arguments})


def rewards(*rows):
    """One iteration of B = 1."""
    return LagInfo(torch.tensor(rows).unsqueeze(1))


def test_weights_begin_as_given():
    torch.testing.assert_close(make(init_weights=2.0).reward_weights, torch.full((3,), 2.0))
    torch.testing.assert_close(make(init_weights=[1.0, 2.0, 5.0]).reward_weights, torch.tensor([1.0, 2.0, 5.0]))
    normalized = make(init_weights=[1.0, 2.0, 5.0], reward_weight_normalization=True)
    torch.testing.assert_close(normalized.reward_weights, torch.tensor([1.0, 2.0, 5.0]) / 8.0)


@pytest.mark.parametrize("transform", [F.softplus, torch.exp])
def test_one_step_by_hand(transform):
    algorithm = make(lambda_transform=transform)
    algorithm.after_train_iter(None, rewards([9.0, 1.0, -2.0], [9.0, 2.0, -4.0]))
    # means 1.5 and -3; thresholds 0.5 and -1: differences 1 and -2
    start = 1.0 if transform is torch.exp else 1.0 - torch.exp(torch.tensor(-1.0)).item()  # d lambda / d parameter
    inverse = torch.log(torch.expm1(torch.tensor(1.0))).item() if transform is F.softplus else 0.0
    expected = transform(torch.tensor([inverse, inverse - 0.1 * start * 1.0, inverse + 0.1 * start * 2.0]))
    torch.testing.assert_close(algorithm.reward_weights, expected)


def test_a_weight_falls_where_its_threshold_is_met_and_rises_where_not():
    algorithm = make(reward_weight_normalization=True)
    before = algorithm.reward_weights
    for _ in range(10):
        algorithm.after_train_iter(None, rewards([0.0, 1.0, -2.0]))
    after = algorithm.reward_weights
    assert after[1] < before[1]
    assert after[2] > before[2]
    assert after.sum().item() == pytest.approx(1.0)
    # the first is not tuned; only its share changes
    torch.testing.assert_close(algorithm._lambdas[0], make()._lambdas[0])


def test_weights_have_an_upper_limit_and_come_back_from_it():
    algorithm = make(max_weight=1.5, optimizer=SGD(lr=10.0))
    algorithm.after_train_iter(None, rewards([0.0, -1.0, -9.0]))
    torch.testing.assert_close(algorithm.reward_weights[1:], torch.tensor([1.5, 1.5]))
    small = make(max_weight=1.5, optimizer=SGD(lr=10.0))
    small.load_state_dict(algorithm.state_dict())
    for group in small.optimizers()[0].param_groups:
        group["lr"] = 0.1
    small.after_train_iter(None, rewards([0.0, 1.0, 9.0]))
    assert (small.reward_weights[1:] < 1.5).all()


def test_all_steps_count_and_transforms_do_not():
    raw = TimeStep(step_type=torch.tensor([0, 1]), reward=torch.tensor([[9.0, 9, 9], [1.0, 2, 3]]))
    scaled = raw._replace(reward=raw.reward * 100, untransformed=raw)
    info = make().rollout_step(scaled).info
    assert torch.equal(info.rollout_reward, raw.reward)
    algorithm, expected = make(), make()
    algorithm.after_train_iter(None, LagInfo(info.rollout_reward.unsqueeze(0)))
    expected.after_train_iter(None, rewards([9.0, 9.0, 9.0], [1.0, 2.0, 3.0]))
    torch.testing.assert_close(algorithm.reward_weights, expected.reward_weights)
    assert torch.equal(make().rollout_step(raw).info.rollout_reward, raw.reward)


def test_nothing_happens_without_rewards():
    algorithm = make()
    before = algorithm.reward_weights
    algorithm.after_train_iter(None, None)
    algorithm.after_train_iter(None, ())
    assert torch.equal(algorithm.reward_weights, before)


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match="at least two rewards"):
        LagrangianRewardWeightAlgorithm(TensorSpec(()), [1.0], SGD(lr=0.1))
    with pytest.raises(ValueError, match="2 reward_thresholds for 3"):
        make(reward_thresholds=[1.0, 2.0])
    with pytest.raises(ValueError, match="positive numbers"):
        make(init_weights=[1.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="less than the initial weight"):
        make(max_weight=0.5)
    with pytest.raises(ValueError, match="softplus or exp"):
        make(lambda_transform=torch.relu)


def test_rewards_of_evaluation_tune_in_the_place_of_those_of_the_rollout():
    algorithm = LagrangianPredRewardWeightAlgorithm(
        SPEC,
        [None, 0.5, -1.0],
        SGD(lr=0.1),
        reward_weight_normalization=False,
        pred_rewards_averager_ctor=lambda spec: EMAverager(spec, update_rate=0.5),
    )
    before = algorithm.reward_weights
    assert algorithm.rollout_step(TimeStep()).info == ()
    algorithm.after_train_iter(None, None)
    assert torch.equal(algorithm.reward_weights, before)
    algorithm.predict_step(
        TimeStep(step_type=torch.tensor([1, 0]), reward=torch.tensor([[9.0, 1.5, -3.0], [7.0, 7, 7]]))
    )
    algorithm.after_train_iter(None, None)
    expected = make()
    expected.after_train_iter(None, rewards([9.0, 1.5, -3.0], [7.0, 7.0, 7.0]))
    torch.testing.assert_close(algorithm.reward_weights, expected.reward_weights)
