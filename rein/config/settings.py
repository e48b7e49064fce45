"""Records of what was given and used, and what they add to a call."""

from dataclasses import dataclass, field
from typing import Any

from rein.config.errors import Place


@dataclass
class Setting:
    """A value that was given.

    Attributes:
        source: real path of the conf file that gave it; None if it came from other Python code.
        outside: given by `pre_config`, so that it wins over `config`.
    """

    value: Any
    place: Place
    source: str | None
    mutable: bool = True
    outside: bool = False


@dataclass
class PreSetting:
    """A value that was given before its name was known."""

    name: str
    value: Any
    place: Place
    source: str | None
    bound_to: str | None = None


@dataclass
class Use:
    """Where a value was first used, and what it is if nobody gave one."""

    place: Place
    default: Any
    inherits_init: bool


@dataclass
class ConfFile:
    """A conf file that was run: its text as read, and where its imports, as written, led."""

    path: str
    text: str
    module: Any
    imports: dict[str, str] = field(default_factory=dict)


class Plan:
    """What to add to the keyword arguments of a call of one shape."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._shared = {name: value for name, value in values.items() if not _is_container(value)}
        self._copied = {name: value for name, value in values.items() if _is_container(value)}
        self.adds = bool(values)

    def add_to(self, keywords: dict[str, Any]) -> None:
        """Adds the values; lists, dicts and sets are copied, so that a call cannot change the next one."""
        keywords.update(self._shared)
        for name, value in self._copied.items():
            keywords[name] = copy_containers(value)


def copy_containers(value: Any) -> Any:
    """`value` with its lists, dicts, sets and tuples rebuilt at every depth; whatever they hold is shared."""
    kind = type(value)
    if kind is dict:
        return {key: copy_containers(one) for key, one in value.items()}
    if kind is list or kind is tuple:
        return kind(copy_containers(one) for one in value)
    if kind is set:
        return set(value)
    return value


def _is_container(value: Any) -> bool:
    if type(value) is tuple:
        return any(_is_container(one) for one in value)
    return type(value) in (dict, list, set)
