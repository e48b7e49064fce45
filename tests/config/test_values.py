"""Giving, replacing, reading and defining values."""

import re
import sys

import pytest

from rein.config import (
    AmbiguousNameError,
    ConfigError,
    ConfigWarning,
    GivenTooLateError,
    GivenTwiceError,
    Reference,
    UnknownNameError,
    config,
    configurable,
    define_config,
    fresh_configs,
    get_config_value,
    get_inoperative_configs,
    get_operative_configs,
    parse_override,
    pre_config,
    reference,
    reset_configs,
    set_name_resolver,
    validate_pre_configs,
)


@configurable
def soft_update(target_tau=0.005, period=1, options=None):
    return target_tau, period, options


class left:  # noqa: N801
    @staticmethod
    @configurable
    def same(x=1, only_left=1):
        return x, only_left


class right:  # noqa: N801
    @staticmethod
    @configurable
    def same(x=2):
        return x


@configurable
class Owner:
    def __init__(self, unique_width=1, network_cls=None):
        self.width, self.network_cls = unique_width, network_cls


@configurable
class Kept(Owner):
    def __init__(self, own=1, **kwargs):
        super().__init__(**kwargs)


def line():
    return sys._getframe(1).f_lineno


def test_all_ways_to_write_a_value():
    for write in (
        lambda: config("soft_update", target_tau=0.1),
        lambda: config({"soft_update.target_tau": 0.1}),
        lambda: config({"soft_update": {"target_tau": 0.1}}),
        lambda: config({"test_values": {"soft_update": {"target_tau": 0.1}}}),
        lambda: config({f"{__name__}.soft_update.target_tau": 0.1}),
        lambda: config({"test_values.soft_update": {"target_tau": 0.1}}),
        lambda: config({"target_tau": 0.1}),
    ):
        with fresh_configs():
            write()
            assert soft_update() == (0.1, 1, None)


def test_dict_values_stay_dicts():
    config({"soft_update.options": {"period": 5}})
    assert soft_update()[2] == {"period": 5}
    with fresh_configs():
        config({"soft_update": {"options": {"target_tau": {}}}})
        assert soft_update()[2] == {"target_tau": {}}


def test_wrong_arguments_of_config():
    with pytest.raises(ConfigError, match=r"gives no value. Write config\('soft_update', parameter=value\)"):
        config("soft_update")
    with pytest.raises(ConfigError, match="not both; got period"):
        config({"soft_update.target_tau": 1}, period=2)
    with pytest.raises(ConfigError, match="needs the name of a configurable or a dict, not 3"):
        config(3)
    with pytest.raises(ConfigError, match="'a b' is not a dotted name"):
        config({"a b": 3})
    with pytest.raises(ConfigError, match="4 is not a dotted name"):
        config({4: 3})


def test_unknown_configurable_suggests_the_nearest():
    with pytest.raises(UnknownNameError) as error:
        config("soft_updaet", target_tau=1)
    assert re.search(
        r"test_values.py:\d+: unknown configurable 'soft_updaet' in 'soft_updaet.target_tau'. "
        r"Did you mean 'soft_update'\?",
        str(error.value),
    )


def test_unknown_parameter_suggests_the_nearest_and_lists_all():
    with pytest.raises(UnknownNameError) as error:
        config("soft_update", target_tua=1)
    assert str(error.value).endswith(
        "'soft_update' has no parameter 'target_tua'. Did you mean 'target_tau'? "
        "Its parameters: target_tau, period, options"
    )


def test_parameter_of_a_base_class_is_named():
    with pytest.raises(UnknownNameError, match=r"It belongs to a base class: '.*Owner.unique_width'"):
        config("Kept", unique_width=1)


def test_configurable_without_parameter_is_explained():
    with pytest.raises(UnknownNameError, match=r"Add the parameter: 'soft_update.target_tau'"):
        config({"soft_update": 3})


def test_dict_given_to_a_misspelt_parameter_is_a_misspelt_parameter():
    with pytest.raises(UnknownNameError, match=r"no parameter 'optoins'. Did you mean 'options'"):
        config({"soft_update.optoins": {"a": 1}})


def test_message_has_the_line_of_the_key():
    first = line()
    with pytest.raises(UnknownNameError) as error:
        config(
            {
                "soft_update.target_tau": 1,
                "soft_update.perod": 1,
            }
        )
    assert f"test_values.py:{first + 5}: " in str(error.value)


def test_nothing_is_set_if_one_name_is_wrong():
    with pytest.raises(UnknownNameError):
        config({"soft_update.target_tau": 1, "soft_update.perod": 1})
    assert soft_update() == (0.005, 1, None)


def test_ambiguous_name_lists_the_candidates():
    with pytest.raises(AmbiguousNameError) as error:
        config("same", x=1)
    assert str(error.value).endswith(
        f"'same.x' is ambiguous; write more of the path of the one you mean:\n"
        f"  {__name__}.left.same.x\n  {__name__}.right.same.x"
    )
    config("left.same", x=10)
    config("same", only_left=5)
    assert (left.same(), right.same()) == ((10, 5), 2)


def test_same_value_twice_names_both_places():
    first = line() + 1
    config("soft_update", target_tau=1)
    with pytest.raises(GivenTwiceError) as error:
        config("soft_update", target_tau=2)
    assert f"test_values.py:{first + 2}: " in str(error.value)
    assert re.search(rf"also at \S*test_values.py:{first}\.", str(error.value))
    assert soft_update()[0] == 1


def test_same_value_twice_in_one_call_under_two_names():
    with pytest.raises(GivenTwiceError, match="given twice"):
        config({"soft_update.target_tau": 1, "target_tau": 1})
    with pytest.raises(GivenTwiceError, match="given twice in one dict"):
        config({"soft_update.target_tau": 1, "soft_update": {"target_tau": 1}})


def test_replace_is_explicit():
    config("soft_update", target_tau=1)
    config({"soft_update.target_tau": 2}, replace=True)
    assert soft_update()[0] == 2


def test_value_given_after_its_use_names_the_use():
    used = line() + 1
    soft_update(period=3)
    with pytest.raises(GivenTooLateError, match=rf"first used at .*test_values.py:{used}\."):
        config("soft_update", target_tau=1)
    config("soft_update", period=4)
    with pytest.raises(GivenTooLateError):
        pre_config({"soft_update.target_tau": 1})
    assert soft_update() == (0.005, 4, None)


def test_used_value_may_change_if_asked():
    soft_update()
    config("soft_update", raise_if_used=False, target_tau=1)
    assert soft_update()[0] == 1


def test_immutable_value_stays():
    config("soft_update", mutable=False, target_tau=1)
    with pytest.warns(ConfigWarning, match=r"keeps the immutable value given at .*test_values.py"):
        config("soft_update", target_tau=2)
    with pytest.raises(GivenTwiceError, match="immutable twice"):
        config("soft_update", mutable=False, target_tau=2)
    assert soft_update()[0] == 1


def test_pre_config_wins_over_config():
    pre_config({"soft_update.target_tau": 1})
    config("soft_update", target_tau=2, period=2)
    assert soft_update() == (1, 2, None)
    with fresh_configs():
        config("soft_update", target_tau=2)
        pre_config({"soft_update.target_tau": 1})
        assert soft_update()[0] == 1


def test_pre_config_before_the_name_is_known():
    pre_config({"born_later.x": 5, "no_dot_param": 6})

    @configurable
    def born_later(x=1, no_dot_param=2):
        return x, no_dot_param

    validate_pre_configs()
    assert born_later() == (5, 6)


def test_pre_config_that_becomes_ambiguous_is_an_error():
    pre_config({"twins_name.x": 5})

    class one:  # noqa: N801
        @staticmethod
        @configurable
        def twins_name(x=1):
            return x

    assert one.twins_name() == 5

    class two:  # noqa: N801
        @staticmethod
        @configurable
        def twins_name(x=1):
            return x

    with pytest.raises(AmbiguousNameError, match=r"twins_name.x' is ambiguous"):
        two.twins_name()
    with pytest.raises(AmbiguousNameError):
        validate_pre_configs()


def test_unknown_pre_configs_are_all_listed():
    pre_config({"soft_updaet.x": 1, "soft_update.perod": 2, "perioid": 3}, place="command line")
    with pytest.raises(UnknownNameError) as error:
        validate_pre_configs()
    first, second, third = str(error.value).splitlines()
    assert first.startswith("command line: unknown configurable 'soft_updaet'")
    assert second.startswith("command line: 'soft_update' has no parameter 'perod'. Did you mean 'period'?")
    assert third.startswith("command line: unknown name 'perioid'. Did you mean 'period'")


def test_pre_config_twice_is_an_error():
    pre_config({"soft_update.period": 1})
    with pytest.raises(GivenTwiceError):
        pre_config({"test_values.soft_update.period": 1})
    assert soft_update()[1] == 1


def test_name_without_dot_used_before_validation_is_too_late():
    pre_config({"unique_width": 3})
    Owner()
    with pytest.raises(GivenTooLateError, match="unique_width"):
        validate_pre_configs()


def test_get_config_value_uses_the_value():
    assert get_config_value("target_tau") == 0.005
    with pytest.raises(GivenTooLateError):
        config("soft_update", target_tau=1)
    with pytest.raises(UnknownNameError, match=r"test_values.py:\d+: unknown configurable 'soft_updat'"):
        get_config_value("soft_updat.period")

    @configurable
    def needs(value_without_default):
        return value_without_default

    with pytest.raises(ConfigError, match="has no default and was not given a value"):
        get_config_value("needs.value_without_default")


def test_define_config():
    assert define_config("num_things", 3) == 3
    assert get_config_value("num_things") == 3
    assert get_config_value("_USER.num_things") == 3
    assert get_config_value("_CONFIG._USER.num_things") == 3
    with pytest.raises(GivenTwiceError, match=r"already run at .*test_values.py:\d+"):
        define_config("num_things", 4)
    with pytest.raises(GivenTooLateError):
        config({"num_things": 4})
    with pytest.raises(GivenTooLateError):
        pre_config({"num_things": 4})
    with pytest.raises(ConfigError, match="identifier"):
        define_config("a.b", 4)
    with pytest.raises(UnknownNameError, match="Did you mean 'num_things'"):
        get_config_value("_USER.num_thing")


@pytest.mark.parametrize("name", ["period", "_USER.period", "_CONFIG._USER.period"])
def test_defined_value_is_overridden_even_if_a_parameter_has_its_name(name):
    pre_config({name: 9})
    assert define_config("period", 3) == 9
    validate_pre_configs()
    assert soft_update()[1] == 1


def test_reset_forgets_everything():
    config("soft_update", target_tau=1)
    soft_update()
    define_config("gone", 1)
    reset_configs()
    config("soft_update", target_tau=2)
    assert soft_update()[0] == 2
    assert define_config("gone", 2) == 2


def test_operative_and_inoperative():
    config({"soft_update.target_tau": 1, "Owner.unique_width": 4})
    pre_config({"never.defined": 5})
    soft_update(period=2)
    assert get_operative_configs() == [
        (f"{__name__}.soft_update.options", None),
        (f"{__name__}.soft_update.target_tau", 1),
    ]
    assert get_inoperative_configs() == [("never.defined", 5), (f"{__name__}.Owner.unique_width", 4)]


def test_references():
    assert reference("soft_update") is soft_update
    assert reference("test_values.Owner") is Owner
    name, value = parse_override("Owner.network_cls=@Kept")
    pre_config({name: value})
    assert Owner().network_cls is Kept
    with fresh_configs():
        config({"Owner.network_cls": Reference("soft_update")})
        assert Owner().network_cls is soft_update
    with fresh_configs(), pytest.raises(UnknownNameError, match="Did you mean 'Kept'"):
        pre_config({"Owner.network_cls": Reference("Kepd")})


def test_resolver_brings_in_names(tmp_path, monkeypatch):
    (tmp_path / "lazily_imported.py").write_text(
        "from rein.config import configurable\n@configurable\ndef lazy_thing(speed=1):\n    return speed\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    asked = []

    def resolve(name):
        asked.append(name)
        if name.split(".")[-1] == "lazy_thing":
            __import__("lazily_imported")

    set_name_resolver(resolve, names=["lazily_imported.lazy_thing"])
    with pytest.raises(UnknownNameError, match="Did you mean 'lazy_thing'"):
        config("lazy_thin", speed=2)
    assert "lazily_imported" not in sys.modules
    pre_config({"lazy_thing.speed": 3})
    assert "lazily_imported" not in sys.modules
    with fresh_configs():
        config("lazy_thing", speed=2)
        assert sys.modules["lazily_imported"].lazy_thing() == 2
    assert get_config_value("lazy_thing.speed") == 3
    validate_pre_configs()
    assert "lazy_thin" in asked


def test_resolver_runs_for_unbound_pre_configs_and_values_apply_at_once(tmp_path, monkeypatch):
    (tmp_path / "lazily_imported_too.py").write_text(
        "from rein.config import configurable\n@configurable\ndef lazy_other(speed=1):\n    return speed\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    set_name_resolver(lambda name: name == "lazy_other" and __import__("lazily_imported_too"))
    with fresh_configs():
        pre_config({"lazy_other.speed": 3})
        assert get_config_value("lazy_other.speed") == 3
    with fresh_configs():
        pre_config({"lazy_other.speed": 3})
        validate_pre_configs()
        assert sys.modules["lazily_imported_too"].lazy_other() == 3
