"""The built-in toy worlds; ids are `rein/<Name>-v<n>`."""

from typing import Any

import gymnasium as gym

from rein.envs.suites.gymnasium_ids import make_registered
from rein.envs.suites.suite import Suite


def _list_ids() -> list[str]:
    from rein.envs.toy import TOY_ENTRY_POINTS

    return list(TOY_ENTRY_POINTS)


def _make(env_name: str, **kwargs: Any) -> gym.Env[Any, Any]:
    from rein.envs.toy import register

    register()
    return make_registered(env_name, **kwargs)


TOY = Suite(
    name="toy",
    description="built-in toy worlds with known best returns",
    extra="",
    modules=(),
    claims=lambda env_name: env_name.startswith("rein/"),
    make=_make,
    list_ids=_list_ids,
)
