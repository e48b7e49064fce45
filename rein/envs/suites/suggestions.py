"""Errors for unknown names that say which known name was probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest_names(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Returns up to `count` known names that look like `name`, best first, ignoring case."""
    by_lower: dict[str, str] = {}
    for candidate in known:
        by_lower.setdefault(candidate.lower(), candidate)
    return [by_lower[match] for match in get_close_matches(name.lower(), by_lower, count, 0.65)]


def unknown_name(name: str, known: Iterable[str], what: str) -> ValueError:
    """Returns the error for a name that does not exist, with the nearest ones that do.

    Args:
        name: what was asked for.
        known: all names.
        what: kind of thing, for the message.
    """
    near = nearest_names(name, known)
    advice = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return ValueError(f"There is no {what} {name!r}.{advice}")
