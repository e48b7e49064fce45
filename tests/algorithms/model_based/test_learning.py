"""MBRL balances a pole after a minute of experience."""

import pytest

import rein


@pytest.mark.learning
@pytest.mark.parametrize("seed", [0, 1])
def test_a_model_of_the_pole_is_learnt_and_used(seed: int) -> None:
    with rein.make("mbrl_cem_cartpole", seed=seed, settings={"TrainerConfig.evaluate": False}) as agent:
        agent.train(1000, progress=False)
        assert agent.evaluate(3).mean > 180
