"""Recording what happens in the current run; without a run or its writer every function here does nothing, quickly.

with rein.summary.scope("critic"):
    rein.summary.scalar("loss", loss)  # recorded as "critic/loss" at the global counter
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rein.runtime.active import ACTIVE, Activation
from rein.runtime.scalar_files import ScalarSeries, read_scalars
from rein.runtime.writers import (
    JsonlWriter,
    MultiWriter,
    SummaryWriter,
    TensorBoardWriter,
    create_summary_writer,
)

__all__ = [
    "JsonlWriter",
    "MultiWriter",
    "ScalarSeries",
    "SummaryWriter",
    "TensorBoardWriter",
    "create_summary_writer",
    "get_global_counter",
    "histogram",
    "image",
    "increment_global_counter",
    "read_scalars",
    "record_if",
    "scalar",
    "scope",
    "set_global_counter",
    "should_record_summaries",
    "text",
]


def should_record_summaries() -> bool:
    """Tells whether a summary given now would be recorded; ask before computing an expensive one."""
    activation = ACTIVE.get()
    return activation is not None and _records(activation)


def scalar(name: str, value: float | Tensor | np.ndarray, step: int | None = None) -> None:
    """Records one number.

    Args:
        name: within the current scope.
        value: a number, or a tensor or array of one element; not read unless it is recorded.
        step: the global counter if None.
    """
    activation = ACTIVE.get()
    if activation is None or not _records(activation):
        return
    number = value.item() if isinstance(value, Tensor | np.ndarray | np.generic) else value
    _writer(activation).scalar(activation.scope + name, float(number), _step(activation, step))


def histogram(name: str, values: Tensor | np.ndarray, step: int | None = None) -> None:
    """Records the distribution of some numbers; those that are not finite are left out.

    Args:
        name: within the current scope.
        values: of any shape; nothing is recorded if none is finite.
        step: the global counter if None.
    """
    activation = ACTIVE.get()
    if activation is None or not _records(activation):
        return
    array = _array(values)
    finite = array[np.isfinite(array)]
    if finite.size:
        _writer(activation).histogram(activation.scope + name, finite, _step(activation, step))


def image(name: str, image: Tensor | np.ndarray, step: int | None = None) -> None:
    """Records a picture.

    Args:
        name: within the current scope.
        image: [H, W] or [C, H, W] with 1, 3 or 4 channels; uint8, or numbers in [0, 1].
        step: the global counter if None.
    """
    activation = ACTIVE.get()
    if activation is None or not _records(activation):
        return
    array = _array(image)
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or array.shape[0] not in (1, 3, 4):
        raise ValueError(f"image {name!r} has shape {array.shape}, expected [H, W] or [C, H, W] with C in 1, 3, 4")
    _writer(activation).image(activation.scope + name, array, _step(activation, step))


def text(name: str, text: str, step: int | None = None) -> None:
    """Records a text.

    Args:
        name: within the current scope.
        text: Markdown.
        step: the global counter if None.
    """
    activation = ACTIVE.get()
    if activation is None or not _records(activation):
        return
    _writer(activation).text(activation.scope + name, text, _step(activation, step))


def scope(name: str) -> AbstractContextManager[str]:
    """Returns a context manager that puts `name/` before the names of all summaries in its block.

    It gives the whole prefix to `as`.

    Args:
        name: of the scope; scopes nest.
    """
    return _Scope(name)


@contextmanager
def record_if(condition: Callable[[], bool], override: bool = False) -> Iterator[None]:
    """Records summaries in the block only when the condition holds at that moment.

    Args:
        condition: called for each summary.
        override: ignore the conditions of enclosing blocks; otherwise they must hold too.
    """
    activation = ACTIVE.get()
    if activation is None:
        yield
        return
    conditions = (condition,) if override else (*activation.conditions, condition)
    token = ACTIVE.set(replace(activation, conditions=conditions))
    try:
        yield
    finally:
        ACTIVE.reset(token)


def get_global_counter() -> int:
    """Returns the global counter of the current run; 0 without one."""
    activation = ACTIVE.get()
    return 0 if activation is None else activation.run.global_counter


def set_global_counter(value: int) -> None:
    """Sets the global counter of the current run; does nothing without one.

    Args:
        value: the step under which the next summaries are recorded.
    """
    activation = ACTIVE.get()
    if activation is not None:
        activation.run.global_counter = int(value)


def increment_global_counter(steps: int = 1) -> int:
    """Adds to the global counter of the current run and returns it; does nothing and returns 0 without one.

    Args:
        steps: how much to add.
    """
    activation = ACTIVE.get()
    return 0 if activation is None else activation.run.increment_global_counter(steps)


class _Scope:
    __slots__ = ("_name", "_outer")

    def __init__(self, name: str):
        self._name = name
        self._outer: Activation | None = None

    def __enter__(self) -> str:
        outer = self._outer = ACTIVE.get()
        if outer is None:
            return f"{self._name}/"
        prefix = f"{outer.scope}{self._name}/"
        ACTIVE.set(outer.with_scope(prefix))
        return prefix

    def __exit__(self, *exception: object) -> None:
        if self._outer is not None:
            ACTIVE.set(self._outer)


def _records(activation: Activation) -> bool:
    return activation.run.writer is not None and all(condition() for condition in activation.conditions)


def _writer(activation: Activation) -> SummaryWriter:
    writer = activation.run.writer
    assert writer is not None
    return writer


def _step(activation: Activation, step: int | None) -> int:
    return activation.run.global_counter if step is None else step


def _array(values: Any) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return np.asarray(values)
