"""Tries an environment with random actions and says what is wrong with it, each fault in one line with what to do.

Example:
  rein check-env CartPole-v1
  rein check-env my_module:MyEnv --steps 2000
"""

import argparse
from importlib import import_module
from typing import Any

from rein.cli.command import FAILURE, OK, BadInputError, Outcome, Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("env", help="an id, or module:Name of a class or function that makes one")
    parser.add_argument("--steps", type=int, default=300, help="steps to try (default: %(default)s)")
    parser.add_argument(
        "--worlds",
        type=int,
        default=8,
        help="worlds in a batch, to compare backends with; 0 leaves that out (default: 8)",
    )


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Checks."""
    from rein.envs.backend_speed import backend_advice, measure_backends
    from rein.envs.checking import check_env

    if arguments.steps < 1:
        raise BadInputError(f"--steps is {arguments.steps}: give at least 1")
    if arguments.worlds < 0:
        raise BadInputError(f"--worlds is {arguments.worlds}: give 0 or more")
    source = _source(arguments.env)
    session.start_working()
    checked = check_env(source, arguments.steps)
    lines = [f"{one.kind}: {one.what}" for one in checked.findings]
    if checked.steps_per_second is not None:
        lines.append(f"fact: {checked.steps_per_second:,.0f} steps per second, the world alone")
    faults = checked.faults
    speeds = measure_backends(source, arguments.worlds) if arguments.worlds and not faults else []
    for one in speeds:
        workers = f" with {one.workers} workers" if one.workers > 1 else ""
        lines.append(
            f"fact: {one.steps_per_second:,.0f} steps per second of {arguments.worlds} worlds, backend {one.backend}{workers}"
        )
    if speeds:
        lines.append(f"advice: {backend_advice(speeds, arguments.worlds)}")
    lines.append("no faults" if not faults else f"{len(faults)} fault{'s' if len(faults) > 1 else ''}")
    data = {
        "env": arguments.env,
        "findings": [one._asdict() for one in checked.findings],
        "steps_per_second": checked.steps_per_second,
        "backends": [one._asdict() for one in speeds],
    }
    return Outcome(data, "\n".join(lines), FAILURE if faults else OK)


def _source(text: str) -> Any:
    """What makes the world: an id as it is, or the class or function that `module:Name` names."""
    module, colon, name = text.partition(":")
    if not colon or not name.isidentifier():
        from rein.envs import suites

        suites.suite_of(text)  # refuses what no suite knows, with the nearest name
        return text
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        hint = "run in the folder where it is, or set PYTHONPATH"
        raise BadInputError(f"{module} cannot be imported ({error}): {hint}") from error
    except AttributeError as error:
        raise BadInputError(f"{module} has no {name}: name a class or function that makes an environment") from error
