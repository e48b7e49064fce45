"""The long form of the fault tests: `make faults` injects many faults of each kind and writes docs/reliability.md.

Each row of the table is a function that injects faults and returns how many it injected and how many got through. A row
fails if one did. `--share 0.1` injects a tenth of them.
"""

import argparse
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).parents[2] / "docs/reliability.md"
ALGORITHMS = ("ppo", "a2c", "sac", "dqn", "td3", "ppg")
WORLDS = {"sac": "Pendulum-v1", "td3": "Pendulum-v1"}
SMALL = [
    "create_environment.num_parallel_environments=2",
    "create_environment.backend=sync",
    "TrainerConfig.unroll_length=8",
    "TrainerConfig.evaluate=False",
    "TrainerConfig.num_checkpoints=1000",
]
EXTRA = {"ppo": ["TrainerConfig.mini_batch_size=16"], "ppg": ["TrainerConfig.mini_batch_size=16"]}


class Found(NamedTuple):
    """What a row found."""

    injected: int
    failed: int
    note: str = ""


class Row(NamedTuple):
    """A kind of fault."""

    what: str
    bar: str
    number: int
    inject: Callable[[int, Path, random.Random], Found]


# Processes.


def _train_command(algorithm: str, run: Path, steps: int = 200_000) -> list[str]:
    world = WORLDS.get(algorithm, "CartPole-v1")
    overrides = [*SMALL, *EXTRA.get(algorithm, []), f"TrainerConfig.num_env_steps={steps}"]
    return [
        sys.executable,
        "-m",
        "rein.cli",
        "train",
        "--algorithm",
        algorithm,
        "--env",
        world,
        *overrides,
        "--dir",
        str(run),
    ]


def _start(command: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _wait_for(condition: Callable[[], Any], seconds: float = 180.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def _children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(line) for line in found.split()]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


SAVING = """
import sys, torch
from rein.runtime.checkpoint import Checkpointer
saver = Checkpointer(sys.argv[1], keep=3)
step = (saver.latest_step() or 0) + 1
print("started", flush=True)
while True:
    saver.save(step, {"alg": {"weight": torch.full((200_000,), float(step))}, "trainer": {"step": step}})
    print(step, flush=True)
    step += 1
"""


def kill_saves(number: int, work: Path, chance: random.Random) -> Found:
    """Kills a process that saves checkpoints at a random moment; the newest that was reported must load, whole."""
    from rein.runtime.checkpoint import Checkpointer

    failed = 0
    for _ in range(number):
        process = subprocess.Popen([sys.executable, "-c", SAVING, str(work)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.random() * 0.3)
        process.kill()
        reported = [int(line) for line in process.stdout.read().split() if line.isdigit()]
        process.wait()
        if reported:
            loaded = Checkpointer(work).load()
            weight = loaded.components["alg"]["weight"]
            failed += loaded.step < reported[-1] or bool((weight != float(loaded.step)).any())
    return Found(number, failed)


def kill_runs(number: int, work: Path, chance: random.Random) -> Found:
    """Kills `rein train` and `rein resume` at random moments; each run must be startable or resumable, and load."""
    from rein.runtime.checkpoint import Checkpointer

    failed = 0
    for index in range(number):
        algorithm = ALGORITHMS[index % len(ALGORITHMS)]
        run = work / algorithm
        is_run = (run / "run.json").exists()
        command = [sys.executable, "-m", "rein.cli", "resume", str(run)] if is_run else _train_command(algorithm, run)
        before = _newest(run)
        process = _start(command)
        if chance.random() < 0.5:
            _wait_for(
                lambda run=run, before=before, p=process: (_newest(run) or 0) > (before or 0) or p.poll() is not None
            )
        else:
            time.sleep(chance.random() * 8.0)
        refused = process.poll() is not None
        process.kill()
        process.wait()
        after = _newest(run)
        if refused or (before is not None and (after is None or after < before)):
            failed += 1
        elif after is not None:
            failed += Checkpointer(run / "checkpoints").load().step != after
    return Found(number, failed, f"over {', '.join(ALGORITHMS)}")


def _newest(run: Path) -> int | None:
    from rein.runtime.checkpoint import Checkpointer

    return Checkpointer(run / "checkpoints").latest_step() if (run / "checkpoints").is_dir() else None


def send_signals(number: int, work: Path, chance: random.Random) -> Found:
    """Stops runs by SIGINT and SIGTERM: exit code, status, checkpoint, and no process or temporary file left."""
    from rein.runtime.checkpoint import Checkpointer

    failed = 0
    for index in range(number):
        run = work / f"run-{index}"
        process = _start(_train_command(ALGORITHMS[index % len(ALGORITHMS)], run))
        _wait_for(lambda run=run, p=process: _newest(run) is not None or p.poll() is not None)
        time.sleep(chance.random())
        children = _children(process.pid)
        which = chance.choice([signal.SIGINT, signal.SIGTERM])
        process.send_signal(which)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
        _wait_for(lambda children=children: not any(map(_is_alive, children)), 5.0)
        good = (
            process.returncode == 128 + which
            and json.loads((run / "run.json").read_text())["status"] == "stopped"
            and Checkpointer(run / "checkpoints").load().step >= 0
            and not any(map(_is_alive, children))
            and not [*run.rglob(".saving-*"), *run.rglob("*.part")]
        )
        failed += not good
        shutil.rmtree(run, ignore_errors=True)
    return Found(number, failed)


def start_twice(number: int, work: Path, chance: random.Random) -> Found:
    """Starts two processes for one run directory at the same time; exactly one may train."""
    failed = 0
    for index in range(number):
        run = work / f"run-{index}"
        pair = [_start(_train_command("ppo", run)) for _ in range(2)]
        _wait_for(lambda pair=pair: any(one.poll() is not None for one in pair))
        refused = [one for one in pair if one.poll() is not None]
        failed += len(refused) != 1 or refused[0].returncode != 2
        for one in pair:
            one.kill()
            one.wait()
    return Found(number, failed)


# In this process.


def poison_gradients(number: int, work: Path, chance: random.Random) -> Found:
    """Makes gradients of every algorithm NaN, infinite or huge while its loss is finite."""
    import torch

    from rein.framework import algorithm as algorithm_module
    from rein.framework.updating import check_finite_state, gradients
    from rein.runtime import Run
    from tests.contract import discovery

    original, failed, injected = gradients.differentiate, 0, 0
    cases = discovery.cases()
    for case in cases.values():
        poisons = [False]

        def poisoned(*args: Any, poisons: list[bool] = poisons, **kwargs: Any) -> Any:
            nonlocal injected
            values = original(*args, **kwargs)
            given = [position for position, value in enumerate(values) if value is not None]
            if poisons[0] and given:
                position = chance.choice(given)
                bad = values[position].clone()
                bad.view(-1)[chance.randrange(bad.numel())] = chance.choice([math.nan, math.inf, -math.inf, 1e30])
                values[position] = bad
                injected += 1
                poisons[0] = False
            return values

        gradients.differentiate = algorithm_module.differentiate = poisoned  # type: ignore[attr-defined]
        try:
            algorithm = case.build()
            with Run(seed=0):
                for _ in range(number):
                    poisons[0] = True
                    while poisons[0]:
                        algorithm.train_iter()
                    algorithm.train_iter()  # A good one in between: ten bad ones in a row would stop the run.
            try:
                check_finite_state(algorithm, algorithm.optimizers())
            except FloatingPointError:
                failed += 1
            failed += not all(bool(torch.isfinite(one).all()) for one in algorithm.parameters())
        finally:
            gradients.differentiate = algorithm_module.differentiate = original  # type: ignore[attr-defined]
    return Found(injected, failed, f"over {len(cases)} configurations of all algorithms")


def mutate_worlds(number: int, work: Path, chance: random.Random) -> Found:
    """Lets worlds return something that they must not; each must be named with world, step and field."""
    import torch

    from rein.envs import create_environment
    from rein.envs.faults import EnvironmentFaultError
    from tests.faults.test_bad_returns import BAD, Faulty

    failed = 0
    for index in range(number):
        field, value = BAD[index % len(BAD)]
        env = create_environment(lambda f=field, v=value: Faulty(f, v), 2, backend="sync", strict=True, seed=index)
        with env:
            try:
                env.reset()
                for _ in range(3):
                    env.step(torch.zeros(2, dtype=torch.int64))
                failed += 1
            except EnvironmentFaultError as error:
                named = "returned" if field == "all" else field
                failed += not (error.fault.step == 3 and error.fault.env_id == 0 and named in str(error))
    return Found(number, failed)


def open_hostile_runs(number: int, work: Path, chance: random.Random) -> Found:
    """Opens run directories whose confs, values and overrides try to run code; nothing may be run."""
    run, marker = work / "run", work / "executed"
    subprocess.run(_train_command("ppo", run, steps=32), check=True, capture_output=True)
    (work / "evil_module.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    sys.path.insert(0, str(work))
    failed = 0
    try:
        for index in range(number):
            copy = Path(shutil.copytree(run, work / f"copy-{index}"))
            _make_hostile(copy, marker, chance)
            failed += _opens_and_executes(copy, marker)
            shutil.rmtree(copy)
    finally:
        sys.path.remove(str(work))
    return Found(number, failed)


def _make_hostile(run: Path, marker: Path, chance: random.Random) -> None:
    touch = f"open({str(marker)!r}, 'w').close()"
    for conf in (run / "config/conf").rglob("*.py"):
        conf.write_text(f"{touch}\n{conf.read_text()}")
    (run / "config/operative.py").write_text(touch)
    values = json.loads((run / "config/values.json").read_text())
    hostile: list[Any] = [
        {"$name": "os:system"},
        {"$partial": "os:system", "args": [f"touch {marker}"], "keywords": {}},
        {"$partial": "builtins:exec", "args": [touch], "keywords": {}},
        {"$call": "subprocess:Popen", "args": [["touch", str(marker)]], "keywords": {}, "number": 0},
        {"$partial": "runpy:run_module", "args": ["evil_module"], "keywords": {}},
        {"$partial": "importlib:import_module", "args": ["evil_module"], "keywords": {}},
        {"$name": "evil_module:Thing"},
        {
            "$partial": "rein.config.conf_files:load_config",
            "args": [str(marker.parent / "evil_module.py")],
            "keywords": {},
        },
        {"$partial": "torch.hub:load", "args": ["x"], "keywords": {}},
        "evil_module:World-v0",
    ]
    kind = chance.randrange(4)
    if kind == 0:
        (run / "config/values.json").unlink()
    elif kind == 1:
        index = json.loads((run / "config/overrides.json").read_text())
        index["overrides"]["create_environment.env_name"] = "'evil_module:CartPole-v1'"
        (run / "config/overrides.json").write_text(json.dumps(index))
    else:
        name = chance.choice(sorted(values["settings"]))
        values["settings"][name]["value"] = chance.choice(hostile)
        (run / "config/values.json").write_text(json.dumps(values))


def _opens_and_executes(run: Path, marker: Path) -> bool:
    import rein

    try:
        rein.load(run).close()
    except Exception as error:
        del error  # Refused, or no use: either is fine, as long as nothing was run.
    is_hit = marker.exists() or "evil_module" in sys.modules
    marker.unlink(missing_ok=True)
    return is_hit


SAVER = """
import sys
import rein
agent = rein.make("ppo", env="CartPole-v1", settings={"create_environment.num_parallel_environments": 2,
    "TrainerConfig.unroll_length": 8, "TrainerConfig.mini_batch_size": 16})
agent.save(sys.argv[1], overwrite=True)
print("saved", flush=True)
while True:
    agent.save(sys.argv[1], overwrite=True)
"""


def interrupt_agent_saves(number: int, work: Path, chance: random.Random) -> Found:
    """Kills `agent.save(overwrite=True)` at random moments; a complete agent must be under its name."""
    import rein

    failed, path = 0, work / "agent"
    for _ in range(number):
        process = subprocess.Popen([sys.executable, "-c", SAVER, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.random() * 0.5)
        process.kill()
        process.wait()
        try:
            rein.load(path).close()
        except Exception:
            failed += 1
    return Found(number, failed)


ROWS = [
    Row("kill -9 while a checkpoint is saved", "0 lost", 1000, kill_saves),
    Row("kill -9 of `rein train` and `rein resume`", "0 lost", 300, kill_runs),
    Row("NaN, infinite and huge gradients", "0 poisoned", 20, poison_gradients),
    Row("worlds that return what they must not", "all named", 500, mutate_worlds),
    Row("SIGINT and SIGTERM", "exit code, status, checkpoint, nothing left", 100, send_signals),
    Row("two starts of one run", "one refused", 40, start_twice),
    Row("hostile run directories", "0 executions", 200, open_hostile_runs),
    Row("kill -9 of `agent.save(overwrite=True)`", "0 missing", 150, interrupt_agent_saves),
]

_TEXT = """# Reliability: faults that were injected

`make faults` injects faults of each kind and writes this page; `tests/faults/` holds the short form, which runs with every
test. A row counts what got through. [Security](security.md) states what opening foreign files can do,
[checkpoints](checkpoints.md) how they are written.

| Fault | Injected | Got through | Bar | Seconds |
| --- | --- | --- | --- | --- |
{rows}

{when}

What the tests beside the table pin:

- Gradients that are not finite are left out before any optimizer steps, counted in `run.json` (`skipped_updates`) and named.
  Ten in a row stop the run, and a checkpoint with such numbers is refused.
- A run holds a lock for the life of its process.
- SIGTERM gives an iteration ten seconds, then interrupts it. The exit code is 143, after Ctrl-C 130, the status "stopped".
  An episode of an evaluation is cut after 200,000 steps.
- A full disk does not stop training but for `--fail-on-save-error`; the last save must succeed.
- Worlds get one restart back for each 100 good steps.
"""


def main() -> int:
    """Runs the rows and writes the page; the exit code is 1 if a fault got through."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the faults to inject")
    parser.add_argument("--counts", nargs="*", default=[], metavar="FUNCTION=N", help="of faults, for single rows")
    parser.add_argument("--only", nargs="*", help="functions to run; the page is not written then")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    counts = {name: int(count) for name, _, count in (one.partition("=") for one in arguments.counts)}
    lines, worst = [], 0
    for row in ROWS:
        if arguments.only and row.inject.__name__ not in arguments.only:
            continue
        number = counts.get(row.inject.__name__) or max(1, round(row.number * arguments.share))
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="rein-faults-") as work:
            found = row.inject(number, Path(work), random.Random(arguments.seed))
        seconds = time.monotonic() - started
        what = f"{row.what} ({found.note})" if found.note else row.what
        lines.append(f"| {what} | {found.injected:,} | {found.failed} | {row.bar} | {seconds:.0f} |")
        print(lines[-1], flush=True)
        worst += found.failed
    if not arguments.only:
        command = " ".join(["python -m tests.faults.campaign", *sys.argv[1:]])
        when = f"Made by `{command}` on {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}."
        PAGE.write_text(_TEXT.format(rows="\n".join(lines), when=when))
    return int(worst > 0)


if __name__ == "__main__":
    sys.exit(main())
