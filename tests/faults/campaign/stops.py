"""Runs that are stopped, and runs that are started twice."""

import json
import random
import shutil
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.faults.campaign.processes import (
    OTHERS,
    SIX,
    descendants,
    end_all,
    is_alive,
    newest,
    start,
    train_arguments,
    wait_for,
)
from tests.faults.campaign.rows import Found

SHARED_MEMORY = Path("/dev/shm")


def _send_signals(kinds: Sequence[str], number: int, work: Path, chance: random.Random) -> Found:
    """Stops runs by SIGINT and SIGTERM: exit code, status, checkpoint, and no process or temporary file left."""
    from rein.runtime.checkpoint import Checkpointer

    failed, faults = 0, set()
    for index in range(number):
        kind = kinds[index % len(kinds)]
        run = work / f"{kind}-{index}"
        there = set(SHARED_MEMORY.iterdir())
        process = start(train_arguments(kind, run))
        wait_for(lambda: newest(run) is not None or process.returncode is not None)  # noqa: B023
        time.sleep(chance.random())
        below = descendants(process.pid)
        which = chance.choice([signal.SIGINT, signal.SIGTERM])
        process.send_signal(which)
        process.wait(60)
        code = process.returncode
        process.kill()
        wait_for(lambda: not any(map(is_alive, below)), 5.0)  # noqa: B023
        found = {
            f"exit code {code}": code != 128 + which,
            "status": json.loads((run / "run.json").read_text())["status"] != "stopped",
            "checkpoint": Checkpointer(run / "checkpoints").load().step < 0,
            "process": any(map(is_alive, below)),
            "temporary file": bool([*run.rglob(".saving-*"), *run.rglob("*.part")]),
            "shared memory": kind != "ray" and bool(set(SHARED_MEMORY.iterdir()) - there),
        }
        bad = [f"{kind}: {name}" for name, is_bad in found.items() if is_bad]
        faults.update(bad)
        failed += bool(bad)
        end_all(below)
        shutil.rmtree(run, ignore_errors=True)
    return Found(number, failed, ", ".join(sorted(faults)) or f"over {', '.join(kinds)}")


send_signals = partial(_send_signals, SIX)
send_signals_to_others = partial(_send_signals, OTHERS)


def start_twice(number: int, work: Path, chance: random.Random) -> Found:
    """Starts two processes for one run directory at the same time; exactly one may train."""
    failed = 0
    for index in range(number):
        run = work / f"run-{index}"
        pair = [start(train_arguments("ppo", run)) for _ in range(2)]
        wait_for(lambda: any(one.returncode is not None for one in pair))  # noqa: B023
        refused = [one for one in pair if one.returncode is not None]
        failed += len(refused) != 1 or refused[0].returncode != 2
        for one in pair:
            one.kill()
    return Found(number, failed)
