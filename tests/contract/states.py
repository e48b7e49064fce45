"""Comparing the states of algorithms."""

from typing import Any

import torch
from torch import Tensor


def tensors_of(state: Any, path: str = "") -> dict[str, Tensor]:
    """All tensors in a nest of mappings and sequences, by path."""
    if isinstance(state, Tensor):
        return {path: state}
    items: Any = ()
    if isinstance(state, dict):
        items = state.items()
    elif isinstance(state, list | tuple):
        items = enumerate(state)
    return {key: value for name, part in items for key, value in tensors_of(part, f"{path}/{name}").items()}


def differences(first: Any, second: Any) -> list[str]:
    """Paths where two states differ."""
    a, b = tensors_of(first), tensors_of(second)
    different = sorted(set(a) ^ set(b))
    return different + [path for path in a.keys() & b.keys() if not torch.equal(a[path], b[path])]
