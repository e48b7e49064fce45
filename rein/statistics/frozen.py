"""Blocks in which running statistics take in nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_FROZEN = ContextVar("rein statistics are frozen", default=False)


@contextmanager
def frozen_statistics() -> Iterator[None]:
    """A block for looking at data that comes again: within it, averagers and normalizers of this thread do not change."""
    token = _FROZEN.set(True)
    try:
        yield
    finally:
        _FROZEN.reset(token)


def are_statistics_frozen() -> bool:
    """Whether this is inside of `frozen_statistics`."""
    return _FROZEN.get()
