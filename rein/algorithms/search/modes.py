"""Modes of modules."""

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn


@contextlib.contextmanager
def in_eval_mode(module: Any) -> Iterator[None]:
    """Evaluation mode for a while, if `module` is one that has modes."""
    trains = isinstance(module, nn.Module) and module.training
    if trains:
        module.eval()
    try:
        yield
    finally:
        if trains:
            module.train()
