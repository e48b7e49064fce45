"""Steps that `rein train` makes in some minutes with nothing set, beside settings that somebody found by hand.

    python benchmarks/default_run.py ppo/CartPole-v1 sac/Hopper-v5 --seconds 300 --out default_run.json
    python benchmarks/default_run.py ppo/CartPole-v1 --seconds 60 300 --settings default "1 compiled" --out FILE --merge

Every run is a process of its own, started as users start it; the clock begins before Python does, so that imports,
compilation and the choice of threads count. All runs have a budget that they cannot reach, and a cache of compiled graphs
of their own that is empty at first (`--warm-cache` leaves them the user's). By hand, the number of threads is given and
the update is compiled at its first call, or never. The bar is that with nothing set 0.9 of the steps of the best are made.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from measuring import BUSY, busy_seconds

from rein.training.callbacks import Callback

HERE = os.path.dirname(os.path.abspath(__file__))
BAR = 0.9
BUDGET = 10**9
MARK = "\\*"
SETTINGS: dict[str, list[str]] = {
    "default": [],
    "1": ["--threads", "1", "TrainerConfig.compile=False"],
    "2": ["--threads", "2", "TrainerConfig.compile=False"],
    "1 compiled": ["--threads", "1", "TrainerConfig.compile=True"],
    "2 compiled": ["--threads", "2", "TrainerConfig.compile=True"],
}


class StepsAt(Callback):
    """Writes down how many steps were made some seconds after the start of the process, and ends the run at the last."""

    def __init__(self, started: float, seconds: list[float], out: str) -> None:
        """Keeps them.

        Args:
            started: when, in seconds since the epoch.
            seconds: after these, in order.
            out: file for lines of JSON.
        """
        self._started, self._left, self._out = started, list(seconds), out

    def on_iteration(self, training: Any) -> None:
        """Looks at the clock."""
        elapsed = time.time() - self._started
        if not self._left or elapsed < self._left[0]:
            return
        steps = training.progress.env_steps
        with open(self._out, "a") as file:
            print(json.dumps({"seconds": self._left.pop(0), "elapsed": elapsed, "env_steps": steps}), file=file)
        if not self._left:
            training.stop("the time of the benchmark is over")


def train(task: str, setting: str, seconds: list[float], has_own_cache: bool) -> dict[str, Any]:
    """Steps of one run after each of `seconds`."""
    algorithm, env = task.split("/")
    with tempfile.TemporaryDirectory(prefix="rein-benchmark-") as directory:
        out = os.path.join(directory, "steps.jsonl")
        path = os.pathsep.join([HERE, os.path.dirname(HERE), os.environ.get("PYTHONPATH", "")])
        variables = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
        variables |= {"PYTHONPATH": path}
        if has_own_cache:
            variables["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(directory, "cache")
        busy, before, started = busy_seconds(), os.times(), time.time()
        callback = f"default_run:StepsAt(started={started!r}, seconds={seconds!r}, out={out!r})"
        command = [sys.executable, "-m", "rein", "train", "--algorithm", algorithm, "--env", env]
        command += ["--dir", os.path.join(directory, "run"), "--callback", callback, *SETTINGS[setting]]
        command.append(f"TrainerConfig.num_env_steps={BUDGET}")
        log = os.path.join(directory, "log")
        with open(log, "w") as file:
            code = subprocess.run(command, env=variables, stdout=file, stderr=file, check=False).returncode
        after, wall = os.times(), time.time() - started
        if code != 0 or not os.path.exists(out):
            with open(log) as file:
                raise SystemExit(f"{' '.join(command)} ended with {code}: {file.read()[-2000:]}")
        own = after.children_user + after.children_system - before.children_user - before.children_system
        other = max(0.0, (busy_seconds() - busy - own) / wall)
        with open(out) as file:
            found = [json.loads(line) for line in file]
        with open(os.path.join(directory, "run", "run.json")) as file:
            facts = json.load(file)
    rates = {str(one["seconds"]): one["env_steps"] / one["elapsed"] for one in found}
    said = ", ".join(f"{rate:,.4g} env steps/s after {after} s" for after, rate in rates.items())
    print(f"{task}, {setting}: {said} (others {other:.2f} cores)", file=sys.stderr, flush=True)
    return {"task": task, "setting": setting, "rates": rates, "other_cpu": other, "threads": facts.get("threads")}


def table(runs: list[dict[str, Any]]) -> str:
    """Env steps per second of every setting, and what the default has of the best, in Markdown."""
    names = list(SETTINGS)
    lines = [f"| run | {' | '.join(names)} | default / best by hand | bar |", "|---" * (len(names) + 3) + "|"]
    for task in dict.fromkeys(run["task"] for run in runs):
        of_task = [run for run in runs if run["task"] == task]
        for seconds in sorted({after for run in of_task for after in run["rates"]}, key=float):
            counted = [run for run in of_task if seconds in run["rates"]]
            rates = {
                name: statistics.median(run["rates"][seconds] for run in counted if run["setting"] == name)
                for name in dict.fromkeys(run["setting"] for run in counted)
            }
            busy = {run["setting"] for run in counted if run["other_cpu"] > BUSY}
            by_hand = [rate for name, rate in rates.items() if name != "default"]
            ratio = rates["default"] / max(by_hand) if by_hand and "default" in rates else None
            cells = [f"{rates[name]:,.4g}{MARK if name in busy else ''}" if name in rates else "-" for name in names]
            verdict = ["-", ""] if ratio is None else [f"{ratio:.2f}", "met" if ratio >= BAR else "**no**"]
            lines.append(f"| {task}, {float(seconds):g} s | {' | '.join([*cells, *verdict])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+", help="such as ppo/CartPole-v1")
    parser.add_argument("--seconds", nargs="+", type=float, default=[300.0], help="when to count; the last ends a run")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--repeats", type=int, default=1, help="their median counts")
    parser.add_argument("--warm-cache", action="store_true", help="take the user's cache of compiled graphs")
    parser.add_argument("--out", metavar="FILE", help="JSON file for everything measured")
    parser.add_argument("--merge", action="store_true", help="add to what --out has")
    arguments = parser.parse_args()
    runs: list[dict[str, Any]] = []
    if arguments.merge and os.path.exists(arguments.out):
        with open(arguments.out) as file:
            runs = json.load(file)
    for _ in range(arguments.repeats):
        for task in arguments.tasks:
            for setting in arguments.settings:
                runs.append(train(task, setting, sorted(arguments.seconds), not arguments.warm_cache))
                if arguments.out:
                    with open(arguments.out, "w") as file:
                        json.dump(runs, file, indent=1)
    print(table(runs))


if __name__ == "__main__":
    main()
