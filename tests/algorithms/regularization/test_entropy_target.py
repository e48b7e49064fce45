import math

import pytest
import torch

from rein.algorithms.regularization import (
    EntropyTargetAlgorithm,
    NestedEntropyTargetAlgorithm,
    SGDEntropyTargetAlgorithm,
)
from rein.data_structures import LossInfo
from rein.distributions import Categorical, DiagNormal, calc_default_target_entropy
from rein.optimizers import SGD
from rein.specs import BoundedTensorSpec

ACTION = BoundedTensorSpec((), torch.int64, 0, 3)
LOG2 = math.log(2)


def feed(algorithm, *entropies):
    """The logs of alpha after each entropy."""
    return [math.log(algorithm.adjust_alpha(torch.tensor(entropy))) for entropy in entropies]


def make(**arguments):
    settings = dict(initial_alpha=1.0, average_window=1, max_entropy=2.0, target_entropy=1.0, min_alpha=1e-9)
    return EntropyTargetAlgorithm(ACTION, **{**settings, **arguments})


def test_init_stage_lowers_alpha_slowly_until_the_entropy_is_low_enough():
    algorithm = make(very_slow_update_rate=0.1)
    logs = feed(algorithm, 3.0, 2.5, 1.9, 1.8)
    # two updates above max_entropy; then the free stage, where nothing changes
    assert logs == pytest.approx([-0.1, -0.2, -0.2, -0.2])


@pytest.mark.parametrize(("entropy", "highest"), [(2.0, 1.6), (-2.0, -2.5)])
def test_max_entropy_is_estimated_from_the_first_updates(entropy, highest):
    algorithm = make(max_entropy=None, target_entropy=-10.0, average_window=2, very_slow_update_rate=0.1)
    logs = feed(algorithm, entropy, entropy)
    assert logs == pytest.approx([0.0, 0.0])
    assert algorithm._max_entropy.get() == pytest.approx(highest)
    assert feed(algorithm, entropy) == pytest.approx([-0.1])


def test_free_stage_ends_below_the_target():
    algorithm = make()
    # skips init at 1.9; free at 1.5 and 1.2; the update that first sees 0.9 starts the adjust stage
    assert feed(algorithm, 1.9, 1.5, 1.2, 0.9) == pytest.approx([0.0] * 4)
    assert feed(algorithm, 0.8) == pytest.approx([LOG2])


def test_adjust_stage_by_hand():
    algorithm = make(skip_free_stage=True, fast_update_rate=0.4, slow_update_rate=0.3)
    steps = [
        (0.9, 0.0),  # nothing to compare with yet
        (0.8, +0.4),  # below and falling
        (0.85, -0.2),  # below and rising: half
        (1.1, -0.36),  # above and rising: full, the crossing made the rate 0.36
        (1.05, +0.18),  # above and falling: half
        (0.95, +0.324),  # below and falling; another crossing: 0.324
        (1.2, -0.3),  # crossing: 0.2916, but not less than the slow rate 0.3
        (0.4, +0.4),  # less than half of the target: fast again
        (0.4, +0.4),  # standing still below counts as falling
    ]
    expected, total = [], 0.0
    for _, change in steps:
        total += change
        expected.append(total)
    assert feed(algorithm, *(entropy for entropy, _ in steps)) == pytest.approx(expected, rel=1e-5)


def test_a_negative_target_is_fast_below_twice_of_it():
    algorithm = make(skip_free_stage=True, target_entropy=-1.0, fast_update_rate=0.4, slow_update_rate=0.1)
    feed(algorithm, -0.5, -0.6)
    assert algorithm._update_rate.get() == pytest.approx(0.4)
    feed(algorithm, -1.9)
    assert algorithm._update_rate.get() == pytest.approx(0.36)
    feed(algorithm, -2.1)
    assert algorithm._update_rate.get() == pytest.approx(0.4)


def test_entropies_are_averaged_and_alpha_has_a_lower_limit():
    algorithm = make(skip_free_stage=True, average_window=2, min_alpha=0.5)
    logs = feed(algorithm, 2.0, 1.9, 1.9, 2.1, 2.1)
    # above: averages fall to 1.95 and to 1.9, then rise to 2.0 and to 2.1, down to the limit log 0.5
    assert logs == pytest.approx([0.0, 0.5 * LOG2, LOG2, 0.0, -LOG2])
    assert feed(algorithm, 2.5) == pytest.approx([-LOG2])
    assert float(algorithm._average_entropy.get()) == pytest.approx(2.3)
    assert make(min_alpha=0.0)._min_log_alpha == -100.0


def test_the_loss_is_the_weighted_negative_entropy_of_steps_with_actions():
    algorithm = make(initial_alpha=0.5, max_entropy=10.0)
    logits = torch.tensor([[[0.0] * 4, [0.0] * 4], [[50.0, 0.0, 0.0, 0.0], [0.0] * 4]], requires_grad=True)
    step_type = torch.tensor([[1, 1], [1, 2]], dtype=torch.int32)
    info = algorithm.train_step((Categorical(logits=logits), step_type)).info
    loss = algorithm.calc_loss(info)
    torch.testing.assert_close(loss.loss, -0.5 * torch.tensor([[math.log(4), math.log(4)], [0.0, math.log(4)]]))
    # the mean over the three steps that are not LAST
    assert float(algorithm._average_entropy.get()) == pytest.approx(2 * math.log(4) / 3)
    algorithm.calc_loss(info, valid_mask=torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    assert float(algorithm._average_entropy.get()) == pytest.approx(0.0, abs=1e-6)


def test_nothing_is_adjusted_without_steps():
    algorithm = make(skip_free_stage=True)
    info = algorithm.train_step((Categorical(logits=torch.zeros(1, 2, 4)), torch.full((1, 2), 2))).info
    algorithm.calc_loss(info)
    assert algorithm.alpha == 1.0


def test_only_rollouts_that_are_trained_on_have_infos():
    inputs = (Categorical(logits=torch.zeros(2, 4)), torch.ones(2, dtype=torch.int32))
    algorithm = make()
    assert algorithm.rollout_step(inputs).info == ()
    algorithm.set_on_policy(True)
    assert algorithm.rollout_step(inputs).info.loss.loss.shape == (2,)
    assert algorithm.predict_step(inputs).info == ()


def test_defaults_and_refused_settings():
    assert EntropyTargetAlgorithm(ACTION).target_entropy == pytest.approx(calc_default_target_entropy(ACTION))
    with pytest.raises(ValueError, match="exceeds max_entropy"):
        make(max_entropy=0.5)
    with pytest.raises(ValueError, match="initial_alpha"):
        make(initial_alpha=0.0)
    with pytest.raises(ValueError, match="put in order"):
        make(slow_update_rate=1.0)


def test_a_nest_has_an_alpha_for_each_action():
    spec = {"a": ACTION, "b": BoundedTensorSpec((2,), torch.float32, -1, 1)}
    algorithm = NestedEntropyTargetAlgorithm(
        spec,
        initial_alpha=1.0,
        skip_free_stage=True,
        average_window=1,
        target_entropy={"a": 10.0, "b": -20.0},
        fast_update_rate=0.5,
    )
    distribution = {
        "a": Categorical(logits=torch.zeros(3, 2, 4)),
        "b": DiagNormal(torch.zeros(3, 2, 2), torch.ones(3, 2, 2)),
    }
    info = algorithm.train_step((distribution, torch.ones(3, 2, dtype=torch.int32))).info
    algorithm.calc_loss(info)
    loss = algorithm.calc_loss(info)
    # both stand still: a, below its target, rises; b, above its own, falls
    alphas = [alg.alpha for alg in algorithm._algs]
    assert alphas == pytest.approx([math.exp(0.5), math.exp(-0.5)])
    entropies = math.log(4), math.log(2 * math.pi * math.e)
    torch.testing.assert_close(loss.loss, torch.full((3, 2), -alphas[0] * entropies[0] - alphas[1] * entropies[1]))
    one_for_all = NestedEntropyTargetAlgorithm(spec, target_entropy=0.5, max_entropy=3.0)
    assert [alg.target_entropy for alg in one_for_all._algs] == [0.5, 0.5]


def test_gradient_descent_on_log_alpha():
    algorithm = SGDEntropyTargetAlgorithm(ACTION, initial_alpha=1.0, target_entropy=1.0, optimizer=SGD(lr=0.1))
    info = algorithm.train_step((Categorical(logits=torch.zeros(2, 3, 4)), torch.ones(2, 3, dtype=torch.int32))).info
    loss = algorithm.calc_loss(info)
    torch.testing.assert_close(loss.loss, torch.full((2, 3), -math.log(4)))
    algorithm.update_with_gradient(LossInfo(scalar_loss=loss.scalar_loss))
    # entropy log 4 > 1: alpha falls
    assert math.log(algorithm.alpha) == pytest.approx(-0.1 * (math.log(4) - 1.0), rel=1e-4)


def test_the_target_of_gradient_descent_may_be_a_schedule():
    target = [1.0]
    algorithm = SGDEntropyTargetAlgorithm(ACTION, initial_alpha=math.e, target_entropy=lambda: target[0], window_size=2)
    inputs = (Categorical(logits=torch.zeros(1, 1, 4)), torch.ones(1, 1, dtype=torch.int32))
    info = algorithm.train_step(inputs).info
    assert algorithm.calc_loss(info).scalar_loss.item() == pytest.approx(math.log(4) - 1.0, rel=1e-5)
    target[0] = 2.0
    sharp = (Categorical(logits=torch.tensor([[[90.0, 0, 0, 0]]])), inputs[1])
    # the mean of log 4 and 0, less 2
    found = algorithm.calc_loss(algorithm.train_step(sharp).info).scalar_loss.item()
    assert found == pytest.approx(math.log(4) / 2 - 2.0, rel=1e-5)


def test_a_policy_is_held_at_its_target():
    """A policy that is pushed to one action keeps its entropy near the target."""
    torch.manual_seed(0)
    target = 0.8
    algorithm = EntropyTargetAlgorithm(ACTION, target_entropy=target, initial_alpha=0.1)
    logits = torch.zeros(1, 8, 4, requires_grad=True)
    optimizer = torch.optim.SGD([logits], lr=4.0)
    step_type = torch.ones(1, 8, dtype=torch.int32)
    entropies = []
    for _ in range(600):
        distribution = Categorical(logits=logits)
        reward = distribution.probs[..., 0]
        loss = -reward + algorithm.calc_loss(algorithm.train_step((distribution, step_type)).info).loss
        optimizer.zero_grad()
        loss.mean().backward()
        optimizer.step()
        entropies.append(distribution.entropy().mean().item())
    late = entropies[-200:]
    assert sum(late) / len(late) == pytest.approx(target, rel=0.1)
