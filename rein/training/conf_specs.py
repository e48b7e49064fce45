"""Specs of the environment of a conf, for the conf itself: networks and losses are often made to measure.

The first of these calls makes the environment that the settings in force describe, looks at it and closes it again. So
the settings of `create_environment` must stand before it in the conf; one that comes later is refused as given too late.
"""

from typing import NamedTuple
from weakref import WeakKeyDictionary

from rein import nest
from rein.config import Configs, get_config_value
from rein.config.configs import ACTIVE
from rein.envs import create_environment
from rein.nest import Nest
from rein.specs import TensorSpec
from rein.transforms import create_data_transformer

__all__ = ["get_action_spec", "get_observation_spec", "get_raw_observation_spec", "get_reward_spec"]


class _Specs(NamedTuple):
    observation: Nest
    action: Nest
    reward: TensorSpec


_KNOWN: "WeakKeyDictionary[Configs, _Specs]" = WeakKeyDictionary()


def get_raw_observation_spec(field: str | None = None) -> Nest:
    """Specs of the observation as the environment gives it.

    Args:
        field: dotted path of a part of it; None for all.
    """
    return nest.get_field(_specs().observation, field)


def get_observation_spec(field: str | None = None) -> Nest:
    """Specs of the observation as algorithms get it, after `TrainerConfig.data_transformer_ctor`.

    Args:
        field: dotted path of a part of it; None for all.
    """
    specs = _specs()
    constructors = get_config_value("TrainerConfig.data_transformer_ctor")
    transformer = create_data_transformer(constructors, specs.observation, reward_spec=specs.reward)
    return nest.get_field(transformer.transformed_observation_spec, field)


def get_action_spec() -> Nest:
    """Specs of the action."""
    return _specs().action


def get_reward_spec() -> TensorSpec:
    """Spec of the reward."""
    return _specs().reward


def _specs() -> _Specs:
    configs = ACTIVE.configs
    if configs not in _KNOWN:
        with create_environment(num_parallel_environments=1, backend="sync", seed=0) as env:
            _KNOWN[configs] = _Specs(env.observation_spec, env.action_spec, env.reward_spec)
    return _KNOWN[configs]
