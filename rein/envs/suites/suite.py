"""What a suite of worlds is: ids, the packages behind them, and how to make one."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import gymnasium as gym


class MissingSuiteError(ImportError):
    """A world was asked for whose packages are not installed; the message says what to install."""


@dataclass(frozen=True)
class Suite:
    """A family of worlds that come from the same package.

    Attributes:
        name: short name, as `rein list envs` shows it.
        description: one line.
        extra: the extra of `rein-rl` that installs it; "" if nothing more is needed.
        modules: top-level modules that must be importable to make a world.
        claims: whether an id belongs to the suite, judged without importing `modules`.
        make: makes a world from its id and keyword arguments; only called if `modules` are there.
        list_ids: all ids; only called if `modules` are there.
        renders_with: modules needed only when a `render_mode` is asked for.
    """

    name: str
    description: str
    extra: str
    modules: tuple[str, ...]
    claims: Callable[[str], bool]
    make: Callable[..., gym.Env[Any, Any]]
    list_ids: Callable[[], list[str]]
    renders_with: tuple[str, ...] = ()

    def is_installed(self) -> bool:
        """Whether worlds of this suite can be made."""
        return not self._missing(self.modules)

    def require(self, env_name: str, render: bool) -> None:
        """Raises `MissingSuiteError` unless everything needed for the world is installed.

        Args:
            env_name: for the message.
            render: whether the world is going to be rendered.
        """
        missing = self._missing(self.modules)
        purpose = f"{env_name!r} belongs to the suite {self.name!r}, which"
        if not missing and render:
            missing = self._missing(self.renders_with)
            purpose = f"Rendering {env_name!r}"
        if missing:
            raise MissingSuiteError(f"{purpose} needs {', '.join(missing)}: pip install 'rein-rl[{self.extra}]'")

    @staticmethod
    def _missing(modules: tuple[str, ...]) -> list[str]:
        return [module for module in modules if find_spec(module) is None]


@dataclass(frozen=True)
class SuiteInfo:
    """A line of `rein list envs`.

    Attributes:
        name: of the suite.
        description: one line.
        extra: `pip install 'rein-rl[extra]'` installs it; "" if it is always there.
        installed: whether its worlds can be made now.
        ids: its worlds; empty if it is not installed.
    """

    name: str
    description: str
    extra: str
    installed: bool
    ids: tuple[str, ...]
