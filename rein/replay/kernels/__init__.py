"""Compiled loops of the replay buffer, and the switch between them and plain torch.

The loops are numba functions that take addresses and numbers only, so that each is compiled for exactly one signature
whatever the data looks like. They are compiled at first use and kept on disk; `warm_up` does it ahead of time. Numba is
imported by the first buffer or tree that lives on the CPU, not with the package.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import torch

from rein.replay.kernels.limits import MAX_PENDING

__all__ = ["MAX_PENDING", "compiled", "plain_torch", "warm_up"]

_plain_torch = False


@functools.cache
def _loops() -> ModuleType:
    from rein.replay.kernels import loops

    return loops


def compiled(device: torch.device) -> ModuleType | None:
    """The compiled loops if they apply to `device`, or None where plain torch does the work."""
    if _plain_torch or device.type != "cpu":
        return None
    return _loops()


@contextmanager
def plain_torch() -> Iterator[None]:
    """Buffers and trees made within this context do all work in plain torch, with identical results."""
    global _plain_torch
    before = _plain_torch
    _plain_torch = True
    try:
        yield
    finally:
        _plain_torch = before


def warm_up() -> None:
    """Compiles every loop, or loads it from the disk cache, so that no first call has to wait for it."""
    _loops().compile_all()
