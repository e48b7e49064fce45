"""Numbers that no return can have are refused where they are given."""

import pytest

from rein.algorithms.losses import ActorCriticLoss, OneStepTDLoss, PPOLoss, TDLoss
from rein.framework import TrainerConfig
from rein.optimizers import Adam


@pytest.mark.parametrize("loss", [ActorCriticLoss, PPOLoss, TDLoss])
def test_discount_and_lambda_are_fractions(loss: type) -> None:
    with pytest.raises(ValueError, match=rf"{loss.__name__}.gamma is 5.0: a discount factor is in \[0, 1\]"):
        loss(gamma=5.0)
    with pytest.raises(ValueError, match=rf"{loss.__name__}.gamma is \(0.9, -0.1\)"):
        loss(gamma=(0.9, -0.1))
    with pytest.raises(ValueError, match=rf"{loss.__name__}.td_lambda is -3"):
        loss(td_lambda=-3)
    loss(gamma=(0.9, 1.0), td_lambda=0.0)


def test_one_step_losses_too() -> None:
    with pytest.raises(ValueError, match=r"gamma is 1\.01"):
        OneStepTDLoss(gamma=1.01)


def test_budgets_and_learning_rates_are_not_negative() -> None:
    with pytest.raises(ValueError, match="num_env_steps is -5"):
        TrainerConfig("", num_env_steps=-5, num_iterations=0)
    with pytest.raises(ValueError, match="lr is -1"):
        Adam(lr=-1.0)
