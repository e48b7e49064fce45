"""See `rein.compat.sb3.monitoring`."""

from rein.compat.sb3.monitoring import (
    Monitor,
    get_monitor_files,
    load_results,
)

__all__ = [
    "Monitor",
    "get_monitor_files",
    "load_results",
]
