"""Names with a module of the documented interface in front."""

import pytest

from rein.config import UnknownNameError, config, configurable, fresh_configs, get_config_value, pre_config


@configurable
def scale_reward(scale: float = 1.0) -> float:
    return scale


@pytest.mark.parametrize("module", ["data_transformer", "sac_algorithm", "td_loss"])
def test_the_module_is_passed_over(module: str) -> None:
    with fresh_configs():
        config(f"{module}.scale_reward", scale=0.5)
        assert scale_reward() == get_config_value(f"{module}.scale_reward.scale") == 0.5
    with fresh_configs():
        pre_config({f"{module}.scale_reward.scale": 0.25})
        assert scale_reward() == 0.25


def test_other_modules_are_not() -> None:
    with pytest.raises(UnknownNameError):
        config("no_such_module.scale_reward", scale=0.5)
    with pytest.raises(UnknownNameError, match=r"data_transformer\.scale_rewards"):
        config("data_transformer.scale_rewards", scale=0.5)


def test_a_module_of_that_name_comes_first() -> None:
    @configurable("data_transformer.scale_reward")
    def other(scale: float = 1.0) -> float:
        return scale

    config("data_transformer.scale_reward", scale=3.0)
    assert (other(), scale_reward()) == (3.0, 1.0)
