"""Memory of runs that train for long.

What a process has resident goes up and down by megabytes with what its allocators keep for later, and with the size of
tables that Python doubles. So the allocator is asked instead how many bytes are handed out: all of them, since Python is
told to take its own objects from it too. The least of many readings is what a run holds between two updates.
"""

import ctypes
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.faults.campaign.processes import train_arguments
from tests.faults.campaign.rows import Found

GROWTH = 1.0
"""Megabytes that a run may grow by in ten minutes of processor time."""

WARM, WATCHED = 90.0, 120.0
"""Seconds of processor time until imports, buffers and caches are there, and those that count."""
_BETWEEN_READINGS, _PATIENCE = 0.2, 3600.0
"""Seconds by the clock: between two readings of a run, and until it must have had its processor time."""
_STEPS, _ITERATIONS = "TrainerConfig.num_env_steps=100000000", "TrainerConfig.num_iterations=10000000"
_SOON_FULL = "TrainerConfig.replay_buffer_length=500"
"""What a buffer comes to hold until it is full is no leak: this one is full before the count begins."""
_ENDLESS: dict[str, list[str]] = {
    "a2c": [_STEPS],
    "ppo": [_STEPS],
    "sac": [_STEPS, _SOON_FULL],
    "dqn": [_STEPS, _SOON_FULL],
    "muzero": [_STEPS, _SOON_FULL],
    "iql": [_ITERATIONS],
    "hypernetwork": [_ITERATIONS],
    "process": [_STEPS],
}


class Reading(NamedTuple):
    """Of a process, at one time."""

    seconds: float
    """Of processor time that it has had."""
    held: float
    """Megabytes that the allocator has handed out."""
    resident: float
    """Megabytes that the system has given, without files that are mapped."""


class _AllocatorCounts(ctypes.Structure):
    """What `mallinfo2` of the C library returns; only the two numbers of bytes in use are read."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")] + [
        (name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    ]


_C_LIBRARY = ctypes.CDLL(None)
_C_LIBRARY.mallinfo2.restype = _AllocatorCounts


def watch_memory(number: int, work: Path, chance: random.Random) -> Found:
    """Lets runs train side by side, and compares the least that they held at first and at last."""
    kinds = list(_ENDLESS)[:number]
    # What a compiler holds is no leak, but it comes at any time.
    usual = ["TrainerConfig.compile=False", "TrainerConfig.num_checkpoints=2000"]
    commands = {kind: train_arguments(kind, work / kind, *usual, *_ENDLESS[kind]) for kind in kinds}
    files = [work / f"{kind}.readings" for kind in kinds]
    runs = [_start(command, file) for command, file in zip(commands.values(), files, strict=True)]
    with ThreadPoolExecutor(len(runs)) as pool:
        ended = [kind for kind, is_whole in zip(kinds, pool.map(_watch, runs, files), strict=True) if not is_whole]
    growths = {kind: growth(readings(file)) for kind, file in zip(kinds, files, strict=True) if kind not in ended}
    worst = sum(held > GROWTH for held, _ in growths.values())
    note = "MB in ten minutes of processor time, in brackets resident: " + ", ".join(
        f"{kind} {held:.1f} ({resident:.1f})" for kind, (held, resident) in growths.items()
    )
    return Found(len(kinds), worst + len(ended), "; ".join([note, *(f"{kind} ended" for kind in ended)]))


def _watch(run: subprocess.Popen[bytes], file: Path) -> bool:
    """Ends a run that has had its processor time; whether it got there."""
    until = time.monotonic() + _PATIENCE
    while run.poll() is None and time.monotonic() < until:
        time.sleep(1.0)
        if file.exists() and (found := readings(file)) and found[-1].seconds >= WARM + WATCHED:
            run.kill()
            run.wait()
            return True
    run.kill()
    run.wait()
    return False


def growth(found: Sequence[Reading]) -> tuple[float, float]:
    """Megabytes in ten minutes of processor time, held and resident: from the first quarter of what counts to the last."""
    counted = [one for one in found if one.seconds >= WARM]
    quarter = len(counted) // 4
    first, last = counted[:quarter], counted[-quarter:]
    minutes = (_middle(last) - _middle(first)) / 60.0
    held = min(one.held for one in last) - min(one.held for one in first)
    resident = min(one.resident for one in last) - min(one.resident for one in first)
    return 10.0 * held / minutes, 10.0 * resident / minutes


def _middle(found: Sequence[Reading]) -> float:
    return 0.5 * (found[0].seconds + found[-1].seconds)


def readings(file: Path) -> list[Reading]:
    """What a run has written down so far."""
    whole, _, _ = file.read_text().rpartition("\n")
    return [Reading(*map(float, line.split())) for line in whole.splitlines()]


def _start(arguments: Sequence[str], readings: Path) -> subprocess.Popen[bytes]:
    """Starts `rein` with these arguments in a process that writes down its readings."""
    command = [sys.executable, "-m", "tests.faults.campaign.memory", str(readings), *arguments]
    environment = {**os.environ, "PYTHONMALLOC": "malloc"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def read() -> Reading:
    """What this process holds now."""
    counts = _C_LIBRARY.mallinfo2()
    lines = Path("/proc/self/status").read_text().splitlines()
    resident = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
    return Reading(time.process_time(), (counts.uordblks + counts.hblkhd) / 1e6, resident / 1e3)


def _write_readings(file: Path) -> None:
    with file.open("w", buffering=1) as output:
        while True:
            output.write(" ".join(f"{number:.6f}" for number in read()) + "\n")
            time.sleep(_BETWEEN_READINGS)


if __name__ == "__main__":
    from rein.cli import main

    threading.Thread(target=_write_readings, args=(Path(sys.argv[1]),), daemon=True).start()
    sys.exit(main(sys.argv[2:]))
