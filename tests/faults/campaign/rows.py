"""What a row of the table is."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Found(NamedTuple):
    """What a row found."""

    injected: int
    failed: int
    note: str = ""


class Row(NamedTuple):
    """A kind of fault."""

    what: str
    bar: str
    number: int
    inject: Callable[[int, Path, random.Random], Found]
