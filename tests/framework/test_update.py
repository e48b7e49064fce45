import pytest
import torch
from torch import nn

from rein.data_structures import BatchInfo, LossInfo
from rein.framework import Algorithm, NonFiniteLossError, TrainerConfig
from rein.framework.updating.gradients import average, importance_weights
from rein.optimizers import SGD


def test_losses_are_masked_and_averaged() -> None:
    loss = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    mask = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    info = average(LossInfo(loss=loss, scalar_loss=torch.tensor(10.0), extra={"a": loss, "b": ()}), mask)
    assert info.loss.item() == pytest.approx((1 + 3 + 4) / 4 + 10)
    assert info.extra["a"].item() == pytest.approx(2.0)
    assert info.extra["b"] == ()


def test_importance_weights_weigh_sequences() -> None:
    loss = torch.ones(2, 3)
    info = average(LossInfo(loss=loss), None, torch.tensor([1.0, 2.0, 3.0]))
    assert info.loss.item() == pytest.approx(2.0)
    config = TrainerConfig("", priority_replay=True, priority_replay_beta=0.5, normalize_importance_weights_by_max=True)
    batch = BatchInfo(importance_weights=torch.tensor([1.0, 4.0]))
    weights = importance_weights(config, batch)
    assert weights is not None
    assert weights.tolist() == pytest.approx([1.0, 0.5])
    assert importance_weights(TrainerConfig(""), batch) is None


class Quadratic(Algorithm):
    def __init__(self) -> None:
        super().__init__(optimizer=SGD(lr=0.5), name="Quadratic")
        self.x = nn.Parameter(torch.tensor(3.0))


def test_one_step_follows_the_gradient() -> None:
    alg = Quadratic()
    info, params = alg.update_with_gradient(LossInfo(loss=alg.x.square().expand(1, 2), extra=alg.x.detach()))
    assert alg.x.item() == pytest.approx(3.0 - 0.5 * 6.0)
    assert info.loss.item() == pytest.approx(9.0)
    assert [name for name, _ in params] == ["x"]
    alg.update_with_gradient(LossInfo(loss=2 * alg.x.square()), weight=0.0)
    assert alg.x.item() == 0.0


def test_a_nan_loss_changes_nothing_and_says_what_to_do() -> None:
    alg = Quadratic()
    loss = LossInfo(loss=alg.x * float("nan"), extra={"part": torch.tensor(float("inf"))})
    with pytest.raises(NonFiniteLossError, match=r"parts are {'part': inf}.*Lower the learning rate"):
        alg.update_with_gradient(loss)
    assert alg.x.item() == 3.0


def test_scalar_loss_must_be_scalar() -> None:
    with pytest.raises(ValueError, match="must be a scalar"):
        average(LossInfo(scalar_loss=torch.zeros(2)), None)


def test_an_info_that_is_no_loss_needs_calc_loss() -> None:
    with pytest.raises(NotImplementedError, match="define calc_loss"):
        Quadratic().calc_loss({"a": 1})


def test_an_update_without_a_loss_changes_nothing() -> None:
    alg = Quadratic()
    info, _ = alg.update_with_gradient(LossInfo())
    assert info.loss == ()
    assert alg.x.item() == 3.0
