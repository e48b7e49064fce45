"""What a run needs around its algorithms: schedules, devices, seeding, summaries, timers, checkpoints.

`Run` owns the state of one run; the functions here find the current one. Checkpoints live in `rein.runtime.checkpoint`.
Names are loaded when first used: worker processes, which need none of torch, import `rein.runtime.processes` alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rein.runtime import summary
    from rein.runtime.device import get_default_device, resolve_device, set_default_device, set_torch_threads
    from rein.runtime.run import PROGRESS_TYPES, ProgressType, Run, current_run, current_run_or_none
    from rein.runtime.schedules import (
        ConditionalScheduler,
        ConstantScheduler,
        CyclicalScheduler,
        FunctionScheduler,
        LinearScheduler,
        ProgressAtLeast,
        RepeatWarmupScheduler,
        Scheduler,
        StepScheduler,
        as_scheduler,
        scheduled,
    )
    from rein.runtime.seeding import get_rng_state, seed_everything, set_rng_state, spawn_seeds
    from rein.runtime.timers import Timers, TimerStats, report, timer

_HOMES = {
    "ConditionalScheduler": "schedules",
    "ConstantScheduler": "schedules",
    "CyclicalScheduler": "schedules",
    "LinearScheduler": "schedules",
    "PROGRESS_TYPES": "run",
    "ProgressAtLeast": "schedules",
    "ProgressType": "run",
    "RepeatWarmupScheduler": "schedules",
    "Run": "run",
    "Scheduler": "schedules",
    "StepScheduler": "schedules",
    "TimerStats": "timers",
    "Timers": "timers",
    "as_scheduler": "schedules",
    "FunctionScheduler": "schedules",
    "scheduled": "schedules",
    "current_run": "run",
    "current_run_or_none": "run",
    "get_default_device": "device",
    "get_rng_state": "seeding",
    "report": "timers",
    "resolve_device": "device",
    "seed_everything": "seeding",
    "set_default_device": "device",
    "set_rng_state": "seeding",
    "set_torch_threads": "device",
    "spawn_seeds": "seeding",
    "timer": "timers",
}

__all__ = [
    "PROGRESS_TYPES",
    "ConditionalScheduler",
    "ConstantScheduler",
    "CyclicalScheduler",
    "FunctionScheduler",
    "LinearScheduler",
    "ProgressAtLeast",
    "ProgressType",
    "RepeatWarmupScheduler",
    "Run",
    "Scheduler",
    "StepScheduler",
    "TimerStats",
    "Timers",
    "as_scheduler",
    "current_run",
    "current_run_or_none",
    "get_default_device",
    "get_rng_state",
    "report",
    "resolve_device",
    "scheduled",
    "seed_everything",
    "set_default_device",
    "set_rng_state",
    "set_torch_threads",
    "spawn_seeds",
    "summary",
    "timer",
]


def __getattr__(name: str) -> Any:
    if name == "summary":
        return import_module("rein.runtime.summary")
    if name not in _HOMES:
        raise AttributeError(f"module 'rein.runtime' has no attribute {name!r}")
    value = getattr(import_module(f"rein.runtime.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
