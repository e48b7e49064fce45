"""Processor cores: how many this process may use, and how many of them are idle."""

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_STAT = Path("/proc/stat")


def usable_cores() -> int:
    """Cores that this process may use: what its affinity leaves, and no more than its quota of time; at least 1."""
    cores = len(_allowed())
    quota = _quota(_CGROUP)
    return cores if quota is None else max(1, min(cores, math.floor(quota)))


def allowed_cores() -> int:
    """Cores that the affinity of this process leaves."""
    return len(_allowed())


def time_quota() -> float | None:
    """Cores' worth of time that the control group of this process grants; None for no limit."""
    return _quota(_CGROUP)


def idle_seconds() -> float | None:
    """Seconds that the usable cores were idle since the machine was started, summed; None where nothing tells.

    The difference of two calls, divided by the time between them, is the number of cores that were free.
    """
    try:
        lines = _STAT.read_text().splitlines()
    except OSError:
        return None
    allowed = {f"cpu{core}" for core in _allowed()}
    fields = [line.split() for line in lines if line.startswith("cpu")]
    # Idle, and waiting for a disk.
    idle = [int(field[4]) + int(field[5]) for field in fields if field[0] in allowed]
    return sum(idle) / os.sysconf("SC_CLK_TCK") if idle else None


def _allowed() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _quota(root: Path) -> float | None:
    """Cores' worth of time that the control group grants, of either version; None for no limit."""
    try:
        limit, period = (root / "cpu.max").read_text().split()
        return None if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        pass
    try:
        microseconds = int((root / "cpu/cpu.cfs_quota_us").read_text())
        return microseconds / int((root / "cpu/cpu.cfs_period_us").read_text()) if microseconds > 0 else None
    except (OSError, ValueError):
        return None
