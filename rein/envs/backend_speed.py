"""How fast a batch of worlds steps on each backend, and which one to take."""

import logging
import os
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

from rein.envs.create import create_environment, seconds_per_step

__all__ = ["BackendSpeed", "backend_advice", "measure_backends"]

_WORTHWHILE = 1.1
"""How much faster than the simplest way another must be to be worth its memory and start-up."""


class BackendSpeed(NamedTuple):
    """A measurement."""

    backend: str
    workers: int
    """Processes or threads that step worlds; 1 is this one."""
    steps_per_second: float
    """Steps of all worlds together."""


def measure_backends(source: Any, batch_size: int = 8, env_kwargs: dict[str, Any] | None = None) -> list[BackendSpeed]:
    """Steps a batch on each backend that takes it, for a quarter of a second each; a world that fails has no speed.

    Args:
        source: an id, or a class or function that makes a world.
        batch_size: worlds in the batch.
        env_kwargs: passed to what makes the world.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = min(cores, batch_size)
    tried = [("sync", 1), ("thread", workers)]
    if isinstance(source, str):
        tried.append(("vector", 1))
    if _can_be_sent(source):
        tried.append(("process", workers))
    found = []
    for backend, count in tried:
        try:
            settings: dict[str, Any] = {
                "env_kwargs": env_kwargs,
                "num_workers": count if count > 1 else None,
                "strict": True,
            }
            with create_environment(source, batch_size, backend, seed=0, **settings) as env:
                found.append(BackendSpeed(backend, count, batch_size / seconds_per_step(env)))
        except Exception as error:  # what a world cannot do; the check has said what is wrong with it
            logging.getLogger("rein.envs").debug("%s cannot be measured: %r", backend, error)
    return found


def backend_advice(speeds: list[BackendSpeed], batch_size: int = 8) -> str:
    """Which backend to take, in one line.

    Args:
        speeds: what `measure_backends` found.
        batch_size: worlds in the batch.
    """
    rates = {one.backend: one for one in speeds}
    best = max(speeds, key=lambda one: one.steps_per_second)
    if best.backend == "vector":
        return "take backend='vector', a batch of its own; more threads or processes gain nothing"
    plain = (rates.get("sync") or best).steps_per_second
    if best.steps_per_second < _WORTHWHILE * plain:
        return "take backend='sync': neither processes nor threads are faster"
    gain = f"{best.steps_per_second / plain:.1f} times as fast as in this process"
    guard = ", in a script guarded by if __name__ == '__main__'" if best.backend == "process" else ""
    return f"take backend='{best.backend}', num_workers={best.workers} for {batch_size} worlds, {gain}{guard}"


def _can_be_sent(source: Any) -> bool:
    try:
        ForkingPickler.dumps(source)
    except Exception:
        return False
    return True
