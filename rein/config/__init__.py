"""Configuration: parameters of functions and classes, given from conf files and the command line."""

import sys
from types import ModuleType
from typing import Any

from rein.config.api import (
    config,
    define_config,
    get_config_value,
    given_by,
    is_given,
    pre_config,
    validate_pre_configs,
)
from rein.config.conf_files import import_config, load_config, parse_config
from rein.config.configs import Configs, fresh_configs, reset_configs, use_configs
from rein.config.configurable import configurable
from rein.config.configurable_names import install_name_resolver
from rein.config.errors import (
    AmbiguousNameError,
    ConfFileError,
    ConfigError,
    ConfigWarning,
    GivenTooLateError,
    GivenTwiceError,
    OverrideSyntaxError,
    SavedConfigError,
    UnknownNameError,
    UntrustedCodeError,
)
from rein.config.names import set_name_resolver
from rein.config.overrides import Reference, parse_override, parse_overrides, reference
from rein.config.rebuilding import load_saved_config
from rein.config.render import (
    get_inoperative_configs,
    get_operative_configs,
    get_unused_overrides,
    inoperative_config_str,
    operative_config_str,
)
from rein.config.saving import save_config

__all__ = [
    "AmbiguousNameError",
    "ConfFileError",
    "ConfigError",
    "ConfigWarning",
    "Configs",
    "GivenTooLateError",
    "GivenTwiceError",
    "OverrideSyntaxError",
    "Reference",
    "SavedConfigError",
    "UnknownNameError",
    "UntrustedCodeError",
    "config",
    "configurable",
    "define_config",
    "fresh_configs",
    "get_config_value",
    "get_inoperative_configs",
    "get_operative_configs",
    "get_unused_overrides",
    "given_by",
    "import_config",
    "inoperative_config_str",
    "install_name_resolver",
    "is_given",
    "load_config",
    "load_saved_config",
    "operative_config_str",
    "parse_config",
    "parse_override",
    "parse_overrides",
    "pre_config",
    "reference",
    "reset_configs",
    "save_config",
    "set_name_resolver",
    "use_configs",
    "validate_pre_configs",
]


class _CallableModule(ModuleType):
    """Makes `rein.config(...)` the function that confs call, though `rein.config` is this package."""

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        config(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
