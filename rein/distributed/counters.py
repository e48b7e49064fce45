"""Counters of the run: what schedules follow, and who makes products, must be the same in every worker."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rein.runtime import Run
from rein.runtime.products import onednn_is_faster
from rein.runtime.run import current_run_or_none
from rein.runtime.watching import unwatched

_NAMES = ("global_counter", "env_steps", "iterations", "progress")


def counters_now() -> dict[str, Any]:
    """Of the current run, by name; empty without one."""
    run = current_run_or_none()
    if run is None:
        return {}
    onednn_is_faster()
    return {name: getattr(run, name) for name in _NAMES} | {"trials": dict(run.trials)}


@contextmanager
def running(run: Run | None, counters: Mapping[str, Any]) -> Iterator[None]:
    """A block in the run of a worker, which is as far as `counters` say.

    Args:
        run: of a process of its own; None where the worker shares that of the updater, who tells of all workers alike.
        counters: see `counters_now`.
    """
    if run is None:
        with unwatched():
            yield
        return
    for name, value in counters.items():
        setattr(run, name, value)
    with run:
        yield
