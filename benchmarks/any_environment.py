"""Which environments an algorithm trains in from a name and an environment alone, in Rein and in Stable-Baselines3.

    python benchmarks/any_environment.py --steps 2000 --out rein.jsonl
    python benchmarks/any_environment.py --library sb3 --steps 200 --out sb3.jsonl
    python benchmarks/any_environment.py --table rein.jsonl sb3.jsonl

Each pair runs in a process of its own; pairs that are in the file already are not run again. A pair "trains" if as many steps
were taken as asked for without a fault of the environment; own environments refuse actions that are not of their space.
"""

import argparse
import json
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

ALGORITHMS = ("ppo", "a2c", "sac", "dqn", "td3")
_CHEAPEST_FIRST = ("a2c", "ppo", "dqn", "td3", "sac")
KNOWN = {
    "CartPole-v1": "discrete",
    "Pendulum-v1": "continuous",
    "FrozenLake-v1": "discrete",
    "Taxi-v4": "discrete",
    "Blackjack-v1": "discrete",
    "MiniGrid-Empty-5x5-v0": "discrete",
    "rein/Reach-v0": "continuous",
    "rein/BouncingSquares-v0": "discrete",
    "boards/tic_tac_toe": "discrete",
    "dm_control/cartpole-swingup": "continuous",
    "ALE/Pong-v5": "discrete",
    "ALE/Breakout-v5": "discrete",
    "CarRacing-v3": "continuous",
}
"""Environments by id, those of images at the end."""
GAMES = ("ALE/Pong-v5", "ALE/Breakout-v5", "CarRacing-v3")
"""Their episodes are long and their pictures costly: they come last, and are trained without the evaluations on the way."""
OBSERVED = (
    *("vector", "one number", "discrete", "discrete of 5000", "multi-discrete", "multi-binary", "bools"),
    *("large whole numbers", "bytes", "small image", "grid of codes", "dict", "tuple", "goal", "gray image"),
)
"""Own environments of these observations, with an action that the algorithm takes."""
ACTED = (
    *("discrete from 5", "box of one number", "box matrix", "box without bounds", "multi-discrete", "multi-binary"),
    *(
        "multi-discrete matrix",
        "whole numbers",
        "dict of both",
        "tuple of both",
        "tuple of boxes",
        "tuple of discretes",
    ),
)
"""Own environments of these actions, with a vector as observation."""


def environments() -> list[str]:
    """The names of all 40."""
    return [*(f"observing: {name}" for name in OBSERVED), *(f"acting: {name}" for name in ACTED), *KNOWN]


def is_legal(algorithm: str, name: str) -> bool:
    """Whether docs/environments.md says that the algorithm takes the environment."""
    from tests.training.any_environment import ACTIONS, takes

    if name in KNOWN:
        return algorithm not in (("dqn",) if KNOWN[name] == "continuous" else ("td3",))
    kind, _, what = name.partition(": ")
    return kind == "observing" or takes(algorithm, ACTIONS[what])


def source(algorithm: str, name: str) -> Any:
    """What makes the environment: an id, or a function."""
    from tests.training.any_environment import ACTIONS, OBSERVATIONS, VECTOR, World, action_for

    kind, _, what = name.partition(": ")
    if kind == "observing":
        return lambda: World(OBSERVATIONS[what], action_for(algorithm))
    if kind == "acting":
        return lambda: World(VECTOR, ACTIONS[what])
    return name


def try_rein(algorithm: str, name: str, steps: int) -> str:
    """The word trains, or why not in one line."""
    import rein

    try:
        settings = {"TrainerConfig.evaluate": False} if name in GAMES else None
        agent = rein.make(algorithm, env=source(algorithm, name), settings=settings)
    except (ValueError, TypeError) as error:
        return f"refused: {error}"
    with agent:
        agent.train(steps)
        trainer: Any = agent._trainer
        if int(trainer.env.fault_counts.sum()):
            return "faults: the environment refused actions"
        if trainer.run.env_steps < steps:
            return f"stopped: after {trainer.run.env_steps} steps"
    return "trains"


def try_sb3(algorithm: str, name: str, steps: int) -> str:
    """The word trains, or the error of Stable-Baselines3 in one line."""
    import stable_baselines3

    from rein.envs.suites import load

    make = source(algorithm, name)
    env = load(make) if isinstance(make, str) else make()
    policies = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")
    first = ""
    for policy in policies:  # a name must be chosen there; the first that works counts
        try:
            model = getattr(stable_baselines3, algorithm.upper())(policy, env, device="cpu")
            model.learn(steps)
            return f"trains ({policy})"
        except Exception as error:
            first = first or f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return f"refused: {first}"


def run_one(library: str, algorithm: str, name: str, steps: int) -> dict[str, Any]:
    """The outcome of one pair."""
    start = time.process_time()
    try:
        outcome = {"rein": try_rein, "sb3": try_sb3}[library](algorithm, name, steps)
    except Exception as error:
        outcome = f"failed: {type(error).__name__}: {error}"
    seconds = round(time.process_time() - start, 1)
    return {"algorithm": algorithm, "env": name, "steps": steps, "outcome": outcome[:300], "seconds": seconds}


def run_all(library: str, steps: int, out: Path, only: str | None, timeout: float) -> None:
    """Runs the pairs that the file has not yet, each in a process that is a copy of this one."""
    import_module({"rein": "rein.api", "sb3": "stable_baselines3"}[library])
    lines = out.read_text().splitlines() if out.exists() else []
    done = {(one["algorithm"], one["env"]) for one in map(json.loads, lines)}
    pairs = [(algorithm, name) for algorithm in _CHEAPEST_FIRST for name in environments()]
    for algorithm, name in sorted(pairs, key=lambda pair: pair[1] in GAMES):
        if (algorithm, name) in done or (only is not None and only not in f"{algorithm} {name}"):
            continue
        worker = get_context("fork").Process(target=_append_one, args=(library, algorithm, name, steps, out))
        size = out.stat().st_size if out.exists() else 0
        worker.start()
        worker.join(timeout)
        if worker.is_alive():
            worker.kill()
        if not out.exists() or out.stat().st_size == size:
            outcome = f"died or not finished in {timeout:g} s"
            _append(out, {"algorithm": algorithm, "env": name, "steps": steps, "outcome": outcome})


def _append_one(library: str, algorithm: str, name: str, steps: int, out: Path) -> None:
    with redirect_stdout(None), redirect_stderr(None):
        record = run_one(library, algorithm, name, steps)
    _append(out, record)


def _append(out: Path, record: dict[str, Any]) -> None:
    with out.open("a") as file:
        file.write(json.dumps(record) + "\n")


def table(files: list[Path]) -> str:
    """A markdown table of one or two files, Rein first."""
    found = [{(one["env"], one["algorithm"]): one for one in map(json.loads, file.open())} for file in files]
    rows = [f"| environment | {' | '.join(ALGORITHMS)} |", f"|---|{'---|' * len(ALGORITHMS)}"]
    for name in environments():
        cells = [" / ".join(_word(one.get((name, algorithm))) for one in found) for algorithm in ALGORITHMS]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _word(record: dict[str, Any] | None) -> str:
    return "not run" if record is None else record["outcome"].partition(":")[0].partition(" (")[0]


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--library", choices=("rein", "sb3"), default="rein")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("any_environment.jsonl"))
    parser.add_argument("--only", help="run only pairs whose text holds this")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds for each pair (default: %(default)s)")
    parser.add_argument("--packages", default="", help="folder of packages to use besides those installed")
    parser.add_argument("--table", nargs="+", type=Path, metavar="FILE", help="print a table of results")
    arguments = parser.parse_args()
    if arguments.packages:
        sys.path.append(arguments.packages)
    if arguments.table:
        print(table(arguments.table))
    else:
        run_all(arguments.library, arguments.steps, arguments.out, arguments.only, arguments.timeout)


if __name__ == "__main__":
    main()
