"""What a conf calls: give values, read them, define them."""

from collections.abc import Mapping
from typing import Any

from rein.config.configs import ACTIVE
from rein.config.errors import ConfigError, GivenTwiceError, Place, caller_key_places, caller_place
from rein.config.names import NAMES


def config(
    prefix_or_dict: str | Mapping[str, Any],
    mutable: bool = True,
    raise_if_used: bool = True,
    replace: bool = False,
    **kwargs: Any,
) -> None:
    """Gives values to parameters of configurables: all of those named or, if one is wrong, none.

    Three ways to write the same:

        config("SacAlgorithm", target_update_tau=0.005)
        config({"SacAlgorithm.target_update_tau": 0.005})
        config({"SacAlgorithm": {"target_update_tau": 0.005}})

    A name may be any suffix of the full one, `rein.algorithms.off_policy.sac.SacAlgorithm.target_update_tau`,
    that means one thing only. A conf may replace what a conf imported by it has given. What two other confs give
    is the value of the second, with a `ConfigWarning`. A value that one conf, or code, gives twice is an error.

    Args:
        prefix_or_dict: the configurable whose parameters are in `kwargs`, or a dict of names and values. The dict
            is the way to reach a parameter that is called like one of the parameters here.
        mutable: False protects the value: a later mutable one is ignored with a `ConfigWarning`, a later
            immutable one is an error.
        raise_if_used: False allows a value that has already been used to change; later uses get the new one.
        replace: True replaces a value that was given before, by whomever.
        **kwargs: values by parameter, if `prefix_or_dict` is a name.
    """
    if isinstance(prefix_or_dict, str):
        if not kwargs:
            raise ConfigError(
                f"{caller_place()}: config('{prefix_or_dict}') gives no value. "
                f"Write config('{prefix_or_dict}', parameter=value)"
            )
        given = {f"{prefix_or_dict}.{name}": value for name, value in kwargs.items()}
    elif isinstance(prefix_or_dict, Mapping):
        if kwargs:
            raise ConfigError(
                f"{caller_place()}: config() takes a dict or a name with keyword values, not both; got "
                f"{', '.join(kwargs)}"
            )
        given = _flatten(prefix_or_dict)
    else:
        raise ConfigError(
            f"{caller_place()}: config() needs the name of a configurable or a dict, not {prefix_or_dict!r}"
        )
    places = caller_key_places(list(given))
    ACTIVE.configs.set(
        {name: (value, places[name]) for name, value in given.items()},
        mutable=mutable,
        raise_if_used=raise_if_used,
        replace=replace,
    )


def pre_config(configs: Mapping[str, Any], place: str = "") -> None:
    """Gives values that win over every `config`, whose names need not be known yet.

    Meant for values from outside, such as the command line. A name takes effect when the module
    that defines it is imported; `validate_pre_configs` finds those that never did. A conf may call
    this too, to give a value to a conf it is about to import; the outside still wins.

    Args:
        configs: values by dotted name.
        place: what to call the place that gives them in messages; by default, file and line of the caller.
    """
    names = list(configs)
    for name in names:
        _check_key(name)
    places = {name: Place(place) for name in names} if place else caller_key_places(names)
    ACTIVE.configs.set_before({name: (configs[name], places[name]) for name in names})


def validate_pre_configs() -> None:
    """Raises a `ConfigError` that lists the names given to `pre_config` that mean nothing, or several things."""
    ACTIVE.configs.validate()


def get_config_value(name: str) -> Any:
    """The value that `name` has now, given or default; from here on it counts as used.

    Args:
        name: any unambiguous suffix of the full name of a value.
    """
    try:
        return ACTIVE.configs.get(name)
    except ConfigError as error:
        raise type(error)(f"{caller_place()}: {error}") from None


def is_given(name: str) -> bool:
    """Whether somebody gave `name` a value; it does not count as used by this.

    Args:
        name: any unambiguous suffix of the full name of a value.
    """
    owner, parameter = ACTIVE.configs.locate(name)
    return owner.full_name(parameter) in ACTIVE.configs.settings


def given_by(name: str) -> str | None:
    """Real path of the conf file that gave `name` its value; None if nobody did, or other code or the outside.

    Args:
        name: any unambiguous suffix of the full name of a value.
    """
    owner, parameter = ACTIVE.configs.locate(name)
    setting = ACTIVE.configs.settings.get(owner.full_name(parameter))
    return None if setting is None or setting.outside else setting.source


def define_config(name: str, default: Any) -> Any:
    """The value of a setting of the conf's own: `default`, unless the outside gave one.

    The setting's full name is `_CONFIG._USER.<name>`; `name` alone means it too. Later code reads it by
    `get_config_value(name)`.

    Args:
        name: a Python identifier.
        default: the value unless `pre_config` gave one.
    """
    place = caller_place()
    if not isinstance(name, str) or not name.isidentifier():
        raise ConfigError(f"{place}: define_config needs an identifier as name, not {name!r}")
    return ACTIVE.configs.define(name, default, place)


def _check_key(key: Any) -> None:
    if not isinstance(key, str) or not all(part.isidentifier() for part in key.split(".")):
        raise ConfigError(f"{caller_place()}: {key!r} is not a dotted name")


def _flatten(configs: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in configs.items():
        _check_key(key)
        name = prefix + key
        nested = _flatten(value, f"{name}.") if isinstance(value, Mapping) and _is_group(name) else {name: value}
        for inner, one in nested.items():
            if inner in flat:
                raise GivenTwiceError(f"{caller_place()}: '{inner}' is given twice in one dict")
            flat[inner] = one
    return flat


def _is_group(name: str) -> bool:
    """Whether a dict given to `name` holds values for several parameters, rather than being a value itself."""
    if name in ACTIVE.configs.user.defaults or ("." in name and NAMES.find_values(name)):
        return False
    return bool(NAMES.find_configurables(name)) or NAMES.is_module_part(name)
