"""Batched environments: every Gymnasium world as `TimeStep`s over preallocated memory.

`create_environment` makes one from a name, an id, or a function; `Environment` is what it returns. Names are loaded when
first used, so that worker processes, which need none of torch, start quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rein.envs.batch import BatchEnvironment
    from rein.envs.create import create_environment
    from rein.envs.environment import BufferedEnvironment, Environment
    from rein.envs.envpool import EnvPoolEnvironment
    from rein.envs.faults import EnvironmentFaultError, Fault, FaultPolicy
    from rein.envs.process import ProcessEnvironment
    from rein.envs.thread import ThreadEnvironment
    from rein.envs.vector import VectorEnvironment

_HOMES = {
    "BatchEnvironment": "batch",
    "BufferedEnvironment": "environment",
    "EnvPoolEnvironment": "envpool",
    "Environment": "environment",
    "EnvironmentFaultError": "faults",
    "Fault": "faults",
    "FaultPolicy": "faults",
    "ProcessEnvironment": "process",
    "ThreadEnvironment": "thread",
    "VectorEnvironment": "vector",
    "create_environment": "create",
}

__all__ = [
    "BatchEnvironment",
    "BufferedEnvironment",
    "EnvPoolEnvironment",
    "Environment",
    "EnvironmentFaultError",
    "Fault",
    "FaultPolicy",
    "ProcessEnvironment",
    "ThreadEnvironment",
    "VectorEnvironment",
    "create_environment",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rein.envs' has no attribute {name!r}")
    value = getattr(import_module(f"rein.envs.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
