"""The values in force, for another process of the same run."""

from collections.abc import Callable

from rein.config.configs import ACTIVE, Configs


def configs_to_send(is_needed: Callable[[str], bool] = lambda name: True) -> Configs:
    """A copy of the values in force; the other process puts them in force by `use_configs`.

    Args:
        is_needed: whether the value with a full name, such as "rein.envs.wrappers.time.FrameSkip.skip", is sent.
    """
    configs = ACTIVE.configs
    configs.bind_pre_settings()
    chosen = Configs()
    chosen.settings = {name: setting for name, setting in configs.settings.items() if is_needed(name)}
    chosen.user.defaults.update(configs.user.defaults)
    return chosen
