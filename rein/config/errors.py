"""What can go wrong in a configuration, and where it was written."""

import linecache
import os
import re
import sys
from collections.abc import Mapping
from types import FrameType
from typing import NamedTuple

_PACKAGE = __name__.rpartition(".")[0]
PASSES_ON = "__passes_config_on__"
"""A module that sets this only hands on what others say: places in messages are theirs."""


class ConfigError(ValueError):
    """A configuration that cannot be right; the message says where, what and what to do."""


class UnknownNameError(ConfigError):
    """No configurable has this name, or it has no such parameter."""


class AmbiguousNameError(ConfigError):
    """The name is a suffix of more than one full name."""


class GivenTwiceError(ConfigError):
    """A value was given at two places and neither of them has the right to replace the other."""


class GivenTooLateError(ConfigError):
    """A value was given after it had been used."""


class OverrideSyntaxError(ConfigError):
    """An override is not `name=literal`."""


class ConfFileError(ConfigError):
    """A conf file cannot be found, read or parsed, or imports itself."""


class SavedConfigError(ConfigError):
    """A directory holds no saved configuration, a damaged one, or a different one."""


class MissingValuesError(SavedConfigError):
    """A saved configuration lacks values that could not be saved.

    Attributes:
        missing: names of the settings, with what the values looked like.
    """

    def __init__(self, folder: os.PathLike[str], missing: Mapping[str, str]) -> None:
        listed = "; ".join(f"{name} = {text}" for name, text in missing.items())
        super().__init__(
            f"{os.fspath(folder)}: these values were given by code and could not be saved, so give them again, "
            f"supply={{name: value}}: {listed}"
        )
        self.missing = dict(missing)


class UntrustedCodeError(SavedConfigError):
    """A saved configuration can only be rebuilt by running or importing code, which nobody has allowed."""


class ConfigWarning(UserWarning):
    """A value was ignored because an immutable one was there first."""


class Place(NamedTuple):
    """Where a value was given or used."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        relative = os.path.relpath(self.file)
        shown = self.file if relative.startswith(os.pardir) else relative
        return f"{shown}:{self.line}"


def caller_place() -> Place:
    """The nearest line of code outside this package that led to the call."""
    frame = _caller_frame()
    return Place(frame.f_code.co_filename, frame.f_lineno)


def caller_key_places(keys: list[str]) -> dict[str, Place]:
    """The line of each key within the caller's (possibly long) `config(...)` call.

    A key that is not written out there, because the dict was built elsewhere, gets the first line of the call.
    """
    frame = _caller_frame()
    file, first = frame.f_code.co_filename, frame.f_lineno
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    first, last = positions[0] or first, positions[1] or first
    lines = [(number, linecache.getline(file, number)) for number in range(first, last + 1)]
    places = {}
    for key in keys:
        word = re.escape(key.rpartition(".")[2])
        written = re.compile(rf"""["']{re.escape(key)}["']\s*:|["'.]{word}["']\s*:|\b{word}\s*=""")
        number = next((number for number, text in lines if written.search(text)), first)
        places[key] = Place(file, number)
    return places


def _caller_frame() -> FrameType:
    frame: FrameType | None = sys._getframe(1)
    outermost = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        is_ours = name == _PACKAGE or name.startswith(_PACKAGE + ".")
        if not is_ours and not frame.f_globals.get(PASSES_ON):
            return frame
        outermost, frame = frame, frame.f_back
    return outermost
