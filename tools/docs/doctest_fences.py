"""An extension of Griffe: examples in docstrings become fenced blocks, also outside of an `Examples:` section."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^( *)>>> .*\n(?:\1\S.*\n?)*", re.MULTILINE)


def with_fences(text: str) -> str:
    """The docstring with each run of `>>>` lines and their output between fences."""
    return _EXAMPLE.sub(lambda found: f"{found[1]}```pycon\n{found[0].rstrip()}\n{found[1]}```\n", text)


class DoctestFences(griffe.Extension):
    """Puts fences around the examples of every docstring."""

    def on_object(self, *, obj: griffe.Object, loader: Any, **kwargs: Any) -> None:
        """Called for each object that was read."""
        if obj.docstring is not None and ">>>" in obj.docstring.value:
            obj.docstring.value = with_fences(obj.docstring.value)
