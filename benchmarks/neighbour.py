"""How much a run loses when another process takes one of the cores.

    python benchmarks/neighbour.py
    python benchmarks/neighbour.py --peers DIR --peers-python PY --repeats 3 --out neighbour.json
    python benchmarks/neighbour.py --only dqn --out neighbour.json --merge

Each contender runs twice in each repeat, one after the other: alone, with one thread; and with nothing said about threads,
while a process that does nothing but count is pinned to the last core. The second rate over the first is the share that
is left; the bar is 0.8. Rein chooses its threads by measurement, Stable-Baselines3 takes torch's default, all cores. The
rows, sizes and windows are those of `run.py`; a run with a neighbour is timed once its rate has settled, as choosing
threads takes some iterations. What other processes than the neighbour used meanwhile is recorded.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from measuring import BUSY, run_measured
from speed_rows import HERE

ROWS = ("ppo/CartPole-v1", "dqn/CartPole-v1", "sac/Hopper-v5", "td3/HalfCheetah-v5", "ppo/HalfCheetah-v5")
BAR = 0.8
SETTLE = 0.7


def command(contender: str, row: str, arguments: argparse.Namespace, is_alone: bool) -> list[str]:
    """What runs a contender."""
    if contender == "sb3":
        algorithm, env = row.split("/")
        environments = ["--n-envs", "8" if algorithm == "ppo" else "1"]
        script = os.path.join(arguments.peers, "sb3_like.py")
        return [arguments.peers_python, script, "sb3", algorithm, env, *environments, "--secs", str(arguments.seconds)]
    more = ["--compile"] if contender == "rein compiled" else []
    settle = [] if is_alone else ["--settle", str(SETTLE)]
    script = os.path.join(HERE, "workload.py")
    return [sys.executable, script, row, *more, *settle, "--seconds", str(arguments.seconds)]


@contextmanager
def neighbour() -> Iterator[None]:
    """A process that wants all of the last core."""
    core = max(os.sched_getaffinity(0))
    process = subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def measure(contender: str, row: str, arguments: argparse.Namespace, is_alone: bool) -> dict[str, Any]:
    """A rate, alone with one thread or with a neighbour and nothing said about threads."""
    line = command(contender, row, arguments, is_alone)
    paths = {"PYTHONPATH": arguments.peers} if contender == "sb3" else {}
    if is_alone:
        measured = run_measured(line, 1, arguments.timeout, paths, is_pinned=False)
    else:
        with neighbour():
            measured = run_measured(line, None, arguments.timeout, paths)
    value = measured.records[0]["value"] if measured.records else None
    # The neighbour used one core.
    other = max(0.0, measured.other_cpu - (0 if is_alone else 1))
    where = "alone" if is_alone else "with a neighbour"
    said = measured.error if value is None else f"{value:,.4g} env steps/s"
    print(f"{row} {contender} {where}: {said} (others {other:.2f} cores)", file=sys.stderr, flush=True)
    return {"row": row, "contender": contender, "alone": is_alone, "value": value, "other_cpu": round(other, 3)}


def table(measurements: list[dict[str, Any]]) -> str:
    """The rows as a table of Markdown; shares are medians of the shares within a repeat."""
    lines = ["| row | | alone, 1 thread | with a neighbour | share | bar |", "|---|---|---|---|---|---|"]
    found: dict[tuple[str, str], dict[bool, list[dict[str, Any]]]] = {}
    for one in measurements:
        found.setdefault((one["row"], one["contender"]), {True: [], False: []})[one["alone"]].append(one)
    for (row, contender), both in found.items():
        pairs = list(zip(both[True], both[False], strict=True))
        rates = [(alone["value"], busy["value"]) for alone, busy in pairs if alone["value"] and busy["value"]]
        if not rates:
            lines.append(f"| {row} | {contender} | - | - | - | |")
            continue
        share = statistics.median(busy / alone for alone, busy in rates)
        is_judged = contender != "sb3"
        verdict = ("met" if share >= BAR else "**no**") if is_judged else ""
        mark = "\\*" if any(one["other_cpu"] > BUSY for pair in pairs for one in pair) else ""
        medians = " | ".join(f"{statistics.median(values):,.4g}" for values in zip(*rates, strict=True))
        lines.append(f"| {row} | {contender} | {medians} | {share:.2f}{mark} | {verdict} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="PREFIX", help="rows whose names begin so")
    parser.add_argument("--contenders", nargs="+", choices=["rein", "rein compiled", "sb3"], help="only these")
    parser.add_argument("--peers", default="", metavar="DIR", help="scripts that run the peers; without, ours alone")
    parser.add_argument("--peers-python", default="", metavar="PY", help="interpreter of Stable-Baselines3")
    parser.add_argument("--seconds", type=float, default=4.0, help="of timing each")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds after which a process is given up")
    parser.add_argument("--out", metavar="FILE", help="JSON file for everything measured")
    parser.add_argument("--merge", action="store_true", help="add to what --out has")
    arguments = parser.parse_args()
    contenders = arguments.contenders or ["rein", "rein compiled", "sb3"]
    if not arguments.peers or not arguments.peers_python:
        contenders = [contender for contender in contenders if contender != "sb3"]
    chosen = [row for row in ROWS if not arguments.only or row.startswith(tuple(arguments.only))]
    report: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "measurements": []}
    if arguments.merge and os.path.exists(arguments.out):
        with open(arguments.out) as file:
            report = json.load(file)
    for _ in range(arguments.repeats):
        for row in chosen:
            for contender in contenders:
                for is_alone in (True, False):
                    report["measurements"].append(measure(contender, row, arguments, is_alone))
                if arguments.out:
                    with open(arguments.out, "w") as file:
                        json.dump(report, file, indent=1)
    print(table(report["measurements"]))


if __name__ == "__main__":
    main()
