"""Rein: reinforcement learning where an agent is a composition of algorithms.

Names are loaded when first used, so that `import rein` is quick and pulls in no more than what is needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rein.version import __version__ as __version__

if TYPE_CHECKING:
    from rein import config, nest, runtime
    from rein.api import load, make
    from rein.config import (
        configurable,
        define_config,
        get_config_value,
        import_config,
        load_config,
        parse_config,
        pre_config,
    )
    from rein.data_structures import (
        AlgStep,
        Experience,
        LossInfo,
        StepType,
        TimeStep,
        make_experience,
        namedtuple,
    )
    from rein.runtime import summary
    from rein.specs import BoundedTensorSpec, TensorSpec
    from rein.training.comparison import compare
    from rein.training.conf_specs import (
        get_action_spec,
        get_observation_spec,
        get_raw_observation_spec,
        get_reward_spec,
    )

_HOMES = {
    "TensorSpec": "specs",
    "BoundedTensorSpec": "specs",
    "AlgStep": "data_structures",
    "Experience": "data_structures",
    "LossInfo": "data_structures",
    "StepType": "data_structures",
    "TimeStep": "data_structures",
    "make_experience": "data_structures",
    "namedtuple": "data_structures",
    "configurable": "config",
    "define_config": "config",
    "get_config_value": "config",
    "import_config": "config",
    "pre_config": "config",
    "load_config": "config",
    "parse_config": "config",
    "summary": "runtime",
    "get_action_spec": "training.conf_specs",
    "get_observation_spec": "training.conf_specs",
    "get_raw_observation_spec": "training.conf_specs",
    "get_reward_spec": "training.conf_specs",
    "make": "api",
    "load": "api",
    "compare": "training.comparison",
}
_MODULES = ("config", "nest", "runtime", "networks", "optimizers", "replay", "envs", "distributions", "specs")

__all__ = [*_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"rein.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"rein.{name}")
    else:
        raise AttributeError(f"module 'rein' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
