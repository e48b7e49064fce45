"""Shortcuts: methods that do at once what other methods of their class do step by step."""

from collections.abc import Sequence


def does_otherwise(cls: type, shortcut: str, methods: Sequence[str]) -> bool:
    """Whether a class below the one that has a shortcut changes what the shortcut is for, so that it does not hold there.

    Args:
        cls: of the object.
        shortcut: name of a method.
        methods: what it does otherwise, by name.
    """
    for base in cls.__mro__:
        if shortcut in vars(base):
            return False
        if any(name in vars(base) for name in methods):
            return True
    return False
