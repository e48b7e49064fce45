"""Processes that are killed while they save."""

import random
import time
from collections.abc import Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.faults.campaign.processes import (
    OTHERS,
    SIX,
    Process,
    context,
    descendants,
    end_all,
    is_alive,
    newest,
    start,
    train_arguments,
    wait_for,
)
from tests.faults.campaign.rows import Found


def _save_for_ever(directory: str, reports: Connection) -> None:
    import torch

    from rein.runtime.checkpoint import Checkpointer

    saver = Checkpointer(directory, keep=3)
    step = (saver.latest_step() or 0) + 1
    reports.send(0)
    while True:
        saver.save(step, {"alg": {"weight": torch.full((200_000,), float(step))}, "trainer": {"step": step}})
        reports.send(step)
        step += 1


def _killed_at_random(function: Any, path: Path, chance: random.Random, seconds: float) -> list[Any]:
    """Kills a process at a random moment after its first report; returns its reports."""
    reader, writer = context().Pipe(duplex=False)
    process = Process(function, str(path), writer)
    writer.close()
    reports = [reader.recv()]
    time.sleep(chance.random() * seconds)
    process.kill()
    while reader.poll():
        try:
            reports.append(reader.recv())
        except EOFError:
            break
    return reports


def kill_saves(number: int, work: Path, chance: random.Random) -> Found:
    """Kills a process that saves checkpoints at a random moment; the newest that was reported must load, whole."""
    from rein.runtime.checkpoint import Checkpointer

    failed = 0
    for _ in range(number):
        reported = _killed_at_random(_save_for_ever, work, chance, 0.2)[-1]
        if reported:
            loaded = Checkpointer(work).load()
            weight = loaded.components["alg"]["weight"]
            failed += loaded.step < reported or bool((weight != float(loaded.step)).any())
    return Found(number, failed)


def _kill_runs(kinds: Sequence[str], number: int, work: Path, chance: random.Random) -> Found:
    """Kills `rein train` and `rein resume` at random moments; each run must be startable or resumable, and load."""
    from rein.runtime.checkpoint import Checkpointer

    failed = 0
    for index in range(number):
        run = work / kinds[index % len(kinds)]
        before = newest(run)
        is_run = (run / "run.json").exists()
        process = start(["resume", str(run)] if is_run else train_arguments(run.name, run))
        if chance.random() < 0.5:
            wait_for(lambda: (newest(run) or 0) > (before or 0) or process.returncode is not None)  # noqa: B023
        else:
            time.sleep(chance.random() * 3.0)
        refused = process.returncode is not None
        below = descendants(process.pid)
        process.kill()
        wait_for(lambda: not any(map(is_alive, below)), 5.0)  # noqa: B023
        end_all(below)
        after = newest(run)
        if refused or (before is not None and (after is None or after < before)):
            failed += 1
        elif after is not None:
            failed += Checkpointer(run / "checkpoints").load().step != after
    return Found(number, failed, f"over {', '.join(kinds)}")


kill_runs = partial(_kill_runs, SIX)
kill_other_runs = partial(_kill_runs, OTHERS)


def _save_agent_for_ever(path: str, reports: Connection) -> None:
    import rein

    settings = {
        "create_environment.num_parallel_environments": 2,
        "TrainerConfig.unroll_length": 8,
        "TrainerConfig.mini_batch_size": 16,
    }
    agent = rein.make("ppo", env="CartPole-v1", settings=settings)
    agent.save(path, overwrite=True)
    reports.send("saved")
    while True:
        agent.save(path, overwrite=True)


def interrupt_agent_saves(number: int, work: Path, chance: random.Random) -> Found:
    """Kills `agent.save(overwrite=True)` at random moments; a complete agent must be under its name."""
    import rein

    failed, path = 0, work / "agent"
    for _ in range(number):
        _killed_at_random(_save_agent_for_ever, path, chance, 0.3)
        try:
            rein.load(path).close()
        except Exception:
            failed += 1
    return Found(number, failed)
