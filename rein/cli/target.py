"""What the first words of a command mean: a conf file, an entry of the zoo, or an algorithm and an environment; and parts."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rein.cli.command import BadInputError
from rein.config.names import did_you_mean
from rein.zoo import algorithms, find_algorithm, find_task, tasks


class Target(NamedTuple):
    """What to train."""

    name: str
    """For the run directory."""
    conf: Path
    words: tuple[str, ...]
    """The words that name it again on a command line."""
    env: str | None
    """Replaces the environment of the conf."""
    overrides: list[str]
    parts: list[str]
    """Parts to compose the algorithm with."""

    @property
    def stem(self) -> str:
        """What to call directories: the name, and those of the parts."""
        return "+".join([self.name, *(re.split(r"[=(]", part)[0].strip() for part in self.parts)])

    def options(self) -> list[str]:
        """The options that say the same again on a command line."""
        env = [] if self.env is None else ["--env", self.env]
        return [*env, *(word for part in self.parts for word in ("--with", part))]

    def configure(self, more_overrides: Sequence[str] = ()) -> None:
        """Runs the conf with the environment, parts and overrides; the configuration in force becomes its.

        Args:
            more_overrides: further `name=value` texts.
        """
        from rein.config import pre_config
        from rein.training.launch import configure

        if self.env is not None:
            pre_config({"create_environment.env_name": self.env}, place=f"--env {self.env}")
        if self.parts:
            from rein.agents.part_text import read_parts

            read_parts(self.parts)
            pre_config({"compose_agent.parts": self.parts}, place=" ".join(f"--with {part}" for part in self.parts))
        configure(self.conf, [*self.overrides, *more_overrides])

    def facts(self) -> dict[str, Any]:
        """What run.json should say about it."""
        from rein.training.statistics_of_runs import describe_overrides

        overrides = [*(f"--with {part}" for part in sorted(self.parts)), *describe_overrides(self.overrides)]
        return {"conf": str(self.conf), "parts": self.parts, "overrides": overrides}


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `CONF name=value ... --algorithm --env --with`."""
    parser.add_argument(
        "target",
        nargs="*",
        metavar="CONF | name=value",
        help="a conf file or a name from `rein list zoo`, then overrides such as TrainerConfig.num_env_steps=50000",
    )
    parser.add_argument("--algorithm", metavar="NAME", help="instead of a conf: a name from `rein list algorithms`")
    parser.add_argument(
        "--env", metavar="ID", help="environment, an id from `rein list envs`; replaces that of the conf"
    )
    parser.add_argument(
        "--with",
        dest="parts",
        action="append",
        default=[],
        metavar="PART",
        help="compose the algorithm with a part from `rein list parts`: NAME, NAME=VALUE or 'NAME(parameter=value)'; "
        "repeatable",
    )


def read_target(arguments: argparse.Namespace) -> Target:
    """The target of a parsed command line.

    Raises:
        BadInputError: there is none, or several.
    """
    words: Sequence[str] = arguments.target
    confs = [word for word in words if "=" not in word]
    overrides = [word for word in words if "=" in word]
    env = arguments.env
    if arguments.algorithm is not None:
        if confs:
            raise BadInputError(f"both a conf ({confs[0]}) and --algorithm {arguments.algorithm} are given: keep one")
        if env is None:
            raise BadInputError(f"--algorithm {arguments.algorithm} needs an environment: add --env CartPole-v1")
        entry = find_algorithm(arguments.algorithm)
        if entry.is_supervised:
            raise BadInputError(
                f"{entry.name} learns from labelled data, not in an environment: train an entry such as "
                "hypernetwork_digits, or a conf of yours that gives its data_creator"
            )
        name = f"{entry.name}_{_file_name(env)}"
        return Target(name, entry.path, ("--algorithm", entry.name), env, overrides, arguments.parts)
    if not confs:
        raise BadInputError("what to train? Give a conf file, a name from `rein list zoo`, or --algorithm and --env")
    if len(confs) > 1:
        raise BadInputError(f"{confs[1]!r} is neither an override (name=value) nor an option; the conf is {confs[0]!r}")
    path = find_conf(confs[0])
    name = path.stem if env is None else f"{path.stem}_{_file_name(env)}"
    return Target(name, path, (confs[0],), env, overrides, arguments.parts)


def find_conf(word: str) -> Path:
    """The conf that a word names: a file, or an entry of the zoo."""
    path = Path(word).expanduser()
    if path.is_file():
        return path
    if path.suffix == ".py" or len(path.parts) > 1:
        folder = path.parent if path.parent.is_dir() else Path()
        near = did_you_mean(path.name, [one.name for one in folder.glob("*.py")])
        raise BadInputError(f"there is no conf file {word!r}.{near}")
    if word in algorithms() and word not in tasks():
        raise BadInputError(f"{word!r} is an algorithm: write --algorithm {word} --env ID")
    return find_task(word).path


def _file_name(env: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in env).lower()
