"""See `rein.compat.sb3.monitoring`."""

from rein.compat.sb3.monitoring import (
    VecMonitor,
)

__all__ = [
    "VecMonitor",
]
