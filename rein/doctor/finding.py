"""What an examination finds."""

from typing import Literal, NamedTuple

Status = Literal["ok", "missing", "problem"]
"""Fine; not there, which is fine unless you need it; or something that will get in your way."""


class Finding(NamedTuple):
    """One line of an examination."""

    subject: str
    status: Status
    text: str
    """What is there, or what is wrong."""
    fix: str = ""
    """What to do about it."""
