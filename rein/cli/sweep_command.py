r"""Trains with many settings and seeds, several processes at a time with one torch thread each.

Say what to vary with --vary: name=[a, b, c] for choices, name=uniform(a, b), name=log(a, b) or name=int(a, b) for ranges.
The score of a trial is the mean over its seeds of the last evaluation. Give the same command again, or
`rein sweep --continue DIR`, to go on with a sweep that was stopped or killed; what is finished is kept.

Example:
  rein sweep ppo_cartpole --vary "learning_rate=[1e-3, 3e-4]" --seeds 3 --dir sweeps/rate
  rein sweep ppo_cartpole TrainerConfig.num_env_steps=50000 --vary "learning_rate=log(1e-4, 1e-2)" \
      --method random --trials 20 --dir sweeps/random
  rein plot sweeps/rate --output rate.png
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rein.cli.command import FAILURE, OK, BadInputError, Outcome, Session
from rein.cli.target import Target, add_target_arguments, read_target
from rein.runtime.cores import usable_cores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add_target_arguments(parser)
    parser.add_argument(
        "--vary", action="append", default=[], metavar="NAME=VALUES", help="a setting to vary; repeatable"
    )
    parser.add_argument("--method", default="grid", choices=("grid", "random", "optuna"), help="(default: grid)")
    parser.add_argument("--trials", type=int, metavar="N", help="points to try, for random and optuna")
    parser.add_argument("--seeds", default="1", metavar="N | A,B,...", help="how many seeds, or which (default: 1)")
    parser.add_argument("--jobs", type=int, default=usable_cores(), help="processes at a time (default: cores)")
    parser.add_argument("--dir", metavar="DIR", help="directory of the sweep (default: sweeps/NAME)")
    parser.add_argument("--sampler-seed", type=int, default=0, help="of random and optuna (default: 0)")
    parser.add_argument(
        "--continue", dest="go_on", metavar="DIR", help="go on with the sweep in DIR; takes nothing else"
    )


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Runs the sweep."""
    if arguments.go_on is not None:
        arguments = _saved_arguments(arguments)
    target = read_target(arguments)

    from rein.training.search_space import parse_dimension
    from rein.training.sweep import Commands, Sweep
    from rein.training.sweep_plan import Plan

    plan = Plan(
        conf=" ".join([*target.words, *target.options()]),
        overrides=tuple(target.overrides),
        dimensions=tuple(parse_dimension(text) for text in arguments.vary),
        method=arguments.method,
        trials=arguments.trials,
        seeds=_parse_seeds(arguments.seeds),
        sampler_seed=arguments.sampler_seed,
    )
    directory = Path(arguments.dir or Path("sweeps") / target.stem)
    sweep = Sweep(directory, plan, Commands(_train_command(target), _resume_command), arguments.jobs, session.stream)
    _check_names(target, sweep.first_overrides())
    with sweep:
        _save_arguments(directory, arguments)
        session.start_working()
        stopped_by = sweep.run()
    return _outcome(sweep, stopped_by)


def _outcome(sweep: Any, stopped_by: str | None) -> Outcome:
    results = sweep.results()
    data = {
        "directory": str(sweep.directory),
        "stopped_by": stopped_by,
        "failures": sweep.failures,
        "trials": [result.to_json() for result in results],
    }
    lines = ["", f"{'score':>10}  trial  settings"]
    for result in results:
        score = "-" if result.mean is None else f"{result.mean:.4g}"
        lines.append(f"{score:>10}  {result.trial:<5}  {' '.join(result.overrides) or '(as in the conf)'}")
    if stopped_by is not None:
        lines.append(f"stopped by {stopped_by}; go on with: rein sweep --continue {sweep.directory}")
    lines += sweep.failures
    return Outcome(data, "\n".join(lines), FAILURE if sweep.failures else OK)


def _check_names(target: Target, overrides: list[str]) -> None:
    """Runs the conf once with the first point, so that a wrong name stops here and not in every process."""
    from rein.config import fresh_configs

    with fresh_configs():
        target.configure(overrides)


def _train_command(target: Target) -> Any:
    def command(overrides: list[str], seed: int, directory: Path) -> list[str]:
        options = [*target.options(), "--seed", str(seed), "--dir", str(directory), "--threads", "1"]
        return [sys.executable, "-m", "rein.cli", "train", *target.words, *options, *overrides]

    return command


def _resume_command(directory: Path) -> list[str]:
    # The confs are those that this sweep was given.
    return [sys.executable, "-m", "rein.cli", "resume", str(directory), "--trust", "--threads", "1"]


def _parse_seeds(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise BadInputError(f"--seeds {text!r}: give a number of seeds, or seeds such as 3,5,8") from None
    if any(number < 0 for number in numbers) or numbers == (0,):
        raise BadInputError(f"--seeds {text!r}: seeds are not negative, and there is at least one")
    return tuple(range(numbers[0])) if "," not in text else numbers


def _save_arguments(directory: Path, arguments: argparse.Namespace) -> None:
    from rein.training.run_directory import write_atomically

    write_atomically(
        directory / "arguments.json", json.dumps({**vars(arguments), "dir": str(directory)}, indent=2) + "\n"
    )


def _saved_arguments(arguments: argparse.Namespace) -> argparse.Namespace:
    path = Path(arguments.go_on) / "arguments.json"
    if arguments.target or arguments.vary or arguments.algorithm or arguments.parts or arguments.dir:
        raise BadInputError("--continue takes everything from the directory: leave out the rest")
    if not path.exists():
        raise BadInputError(f"{arguments.go_on} holds no sweep: there is no {path.name}")
    saved = json.loads(path.read_text())
    given = {"dir": arguments.go_on, "jobs": arguments.jobs, "json": arguments.json, "debug": arguments.debug}
    return argparse.Namespace(**{"parts": [], **saved, **given, "go_on": None})
