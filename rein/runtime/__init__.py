"""What a run needs around its algorithms: schedules, devices, seeding, summaries, timers, checkpoints.

`Run` owns the state of one run; the functions here find the current one. Checkpoints live in `rein.runtime.checkpoint`.
"""

from rein.runtime import summary
from rein.runtime.device import get_default_device, resolve_device, set_default_device, set_torch_threads
from rein.runtime.run import PROGRESS_TYPES, ProgressType, Run, current_run, current_run_or_none
from rein.runtime.schedules import (
    ConditionalScheduler,
    ConstantScheduler,
    LinearScheduler,
    ProgressAtLeast,
    RepeatWarmupScheduler,
    Scheduler,
    StepScheduler,
    as_scheduler,
)
from rein.runtime.seeding import get_rng_state, seed_everything, set_rng_state, spawn_seeds
from rein.runtime.timers import Timers, TimerStats, report, timer

__all__ = [
    "PROGRESS_TYPES",
    "ConditionalScheduler",
    "ConstantScheduler",
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
    "seed_everything",
    "set_default_device",
    "set_rng_state",
    "set_torch_threads",
    "spawn_seeds",
    "summary",
    "timer",
]
