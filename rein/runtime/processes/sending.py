"""Sending live objects to another process of the same run; the one place that pickles for it.

What is received was made by the parent or by a worker on this machine. Nothing that is read from a file comes here.
"""

import io
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from rein.config.names import CONF_MODULES

__all__ = ["pack", "unpack"]


def pack(thing: Any, what: str = "a message", instead: str = "", leave_out: tuple[type, ...] = ()) -> bytes:
    """`thing` as bytes for `unpack` in another process; `TypeError` where it cannot travel.

    Functions and classes of the main program and of confs, which others cannot import, are taken along.

    Args:
        thing: what to send.
        what: what to call it in the error.
        instead: what to do instead, for the error.
        leave_out: objects of these types, wherever they are in `thing`, arrive as None.
    """
    buffer = io.BytesIO()
    pickler = _LeavingOut(buffer, leave_out) if leave_out else cloudpickle.Pickler(buffer)
    try:
        with _conf_modules_travel():
            pickler.dump(thing)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise TypeError(
            f"{what} cannot be sent to worker processes ({error}): make it of things that hold no open files, locks or "
            f"modules of tests{instead and '; or '}{instead}"
        ) from error
    return buffer.getvalue()


def unpack(data: bytes) -> Any:
    """What `pack` was given."""
    return _NoneForLeftOut(io.BytesIO(data)).load()


class _LeavingOut(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, buffer: io.BytesIO, leave_out: tuple[type, ...]) -> None:
        super().__init__(buffer)
        self._leave_out = leave_out

    def persistent_id(self, thing: Any) -> str | None:
        return "left out" if isinstance(thing, self._leave_out) else None


class _NoneForLeftOut(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> None:
        return None


@contextmanager
def _conf_modules_travel() -> Iterator[None]:
    """A block in which cloudpickle takes along what confs define: another process cannot import a conf."""
    package = sys.modules.get(CONF_MODULES.rstrip("."))
    if package is None or package.__name__ in cloudpickle.list_registry_pickle_by_value():
        yield
        return
    cloudpickle.register_pickle_by_value(package)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(package)
