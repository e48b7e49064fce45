"""Names that people type: of several settings of one name, the one that the run uses is meant."""

from pathlib import Path

import pytest

from rein.config import fresh_configs, get_config_value, install_name_resolver, parse_config, pre_config
from rein.config.errors import AmbiguousNameError
from rein.zoo import find_algorithm


def values(algorithm: str, given: dict[str, object], *names: str) -> list[object]:
    with fresh_configs():
        install_name_resolver()
        pre_config(given, place="test")
        parse_config(find_algorithm(algorithm).path)
        return [get_config_value(name) for name in names]


def test_the_loss_of_the_chosen_algorithm_gets_gamma() -> None:
    assert values("ppo", {"gamma": 0.9}, "PPOLoss.gamma") == [0.9]
    assert values("sac", {"gamma": 0.8}, "OneStepTDLoss.gamma") == [0.8]


def test_other_words_for_settings_are_understood() -> None:
    given = {"lr": 1e-3, "batch_size": 32, "n_steps": 16, "net_arch": (8,)}
    names = ("learning_rate", "TrainerConfig.mini_batch_size", "TrainerConfig.unroll_length", "hidden_layers")
    assert values("ppo", given, *names) == [1e-3, 32, 16, (8,)]


def test_what_the_run_uses_twice_stays_ambiguous() -> None:
    with pytest.raises(AmbiguousNameError, match="'activation' is ambiguous"):
        values("ppo", {"activation": None})


def test_a_conf_may_use_such_a_word_itself(tmp_path: Path) -> None:
    conf = tmp_path / "own.py"
    conf.write_text("import rein\nlr = rein.define_config('lr', 1.0)\n")
    with fresh_configs():
        pre_config({"lr": 2.0}, place="test")
        parse_config(conf)
        assert get_config_value("lr") == 2.0
