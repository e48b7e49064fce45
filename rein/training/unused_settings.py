"""Settings that were given for a run and that nothing in the run uses."""

import inspect

from rein.config import ConfigError, get_unused_overrides
from rein.framework import Algorithm


class UnusedSettingError(ConfigError):
    """A setting was given for an algorithm that the run does not have."""


def refuse_settings_of_absent_algorithms(root: Algorithm) -> None:
    """Raises if a value from outside of the conf is for an algorithm that was not built: it would change nothing.

    Confs may give more than they use; what somebody typed for one run was meant.

    Args:
        root: the algorithm of the run, built.

    Raises:
        UnusedSettingError: names the setting, and the one that was probably meant.
    """
    present = list(dict.fromkeys(type(module) for module in root.modules() if isinstance(module, Algorithm)))
    names = [kind.__name__ for kind in present]
    for unused in get_unused_overrides():
        owner = unused.owner.target
        is_algorithm = isinstance(owner, type) and issubclass(owner, Algorithm)
        if not is_algorithm or owner in present:
            continue
        text = f"{unused.place}: '{owner.__name__}.{unused.parameter}' changes nothing: the run has no {owner.__name__}"
        text += f", only {', '.join(names)}."
        meant = [f"'{kind.__name__}.{unused.parameter}'" for kind in present if unused.parameter in _parameters(kind)]
        if meant:
            text += f" Did you mean {' or '.join(meant)}?"
        if owner.__name__ == "Agent":
            text += ' Parts put an Agent around the algorithm, such as parts=["rnd"] or --with rnd'
        raise UnusedSettingError(text)


def _parameters(kind: type[Algorithm]) -> set[str]:
    return set(inspect.signature(kind).parameters)
