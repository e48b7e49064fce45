"""What the first words of a command mean: a conf file, an entry of the zoo, or an algorithm and a world; parts; data."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rein.cli.command import BadInputError
from rein.config.names import did_you_mean
from rein.zoo import algorithms, find_algorithm, find_task, task_entries


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
    data: tuple[str, ...] = ()
    """Data sets to learn from."""

    @property
    def stem(self) -> str:
        """What to call directories: the name, and those of the parts."""
        return "+".join([self.name, *(re.split(r"[=(]", part)[0].strip() for part in self.parts)])

    def options(self) -> list[str]:
        """The options that say the same again on a command line."""
        env = ["--env", self.env] if self.env else []
        data = [word for path in self.data for word in ("--data", path)]
        return [*env, *data, *(word for part in self.parts for word in ("--with", part))]

    def configure(self, more_overrides: Sequence[str] = ()) -> None:
        """Runs the conf with the environment, parts and overrides; the configuration in force becomes its.

        Args:
            more_overrides: further `name=value` texts.
        """
        from rein.config import pre_config
        from rein.training.launch import configure

        if self.env is not None:
            pre_config({"create_environment.env_name": self.env}, place=f"--env {self.env}")
        if self.data:
            paths = [str(Path(path).resolve()) for path in self.data]
            pre_config({"TrainerConfig.offline_buffer_dir": paths}, place=f"--data {' '.join(self.data)}")
        if self.parts:
            from rein.agents.part_text import read_parts

            read_parts(self.parts)
            pre_config({"compose_agent.parts": self.parts}, place=" ".join(f"--with {part}" for part in self.parts))
        configure(self.conf, [*self.overrides, *more_overrides])

    def facts(self) -> dict[str, Any]:
        """What run.json should say about it."""
        from rein.training.statistics_of_runs import describe_overrides

        overrides = [*(f"--with {part}" for part in sorted(self.parts)), *describe_overrides(self.overrides)]
        data = {"data": list(self.data)} if self.data else {}
        return {"conf": str(self.conf), "parts": self.parts, "overrides": overrides, **data, **self._bars()}

    def _bars(self) -> dict[str, Any]:
        """What an entry of the zoo is to reach, if this is one and its score is a return."""
        entry = task_entries().get(self.name)
        if entry is None or entry.path != self.conf or entry.facts.get("measure", "mean_return") != "mean_return":
            return {}
        bars = {key: entry.facts[key] for key in ("bar", "at_most") if entry.facts.get(key) is not None}
        return {"bars": bars} if bars else {}


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
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="FILE",
        help="learn from a data set of `rein record`; repeatable. With --algorithm no environment is needed then, but to "
        "evaluate",
    )


def read_target(arguments: argparse.Namespace) -> Target:
    """The target of a parsed command line.

    Raises:
        BadInputError: there is none, or several.
    """
    words: Sequence[str] = arguments.target
    confs = [word for word in words if "=" not in word]
    overrides = [word for word in words if "=" in word]
    env, data = arguments.env, tuple(arguments.data)
    for path in data:
        if not Path(path).exists():
            raise BadInputError(f"there is no data set {path}: record one with `rein record RUN --out {path}`")
    if arguments.algorithm is not None:
        if confs:
            raise BadInputError(f"both a conf ({confs[0]}) and --algorithm {arguments.algorithm} are given: keep one")
        entry = find_algorithm(arguments.algorithm)
        if entry.is_supervised:
            raise BadInputError(
                f"{entry.name} learns from labelled data, not in an environment: train an entry such as "
                "hypernetwork_digits, or a conf of yours that gives its data_creator"
            )
        if entry.facts.get("learns_from") == "data" and not data and not _names_data(overrides):
            raise BadInputError(
                f"--algorithm {entry.name} learns from data: add --data FILE, which `rein record` makes"
            )
        if env is None and not data:
            raise BadInputError(f"--algorithm {arguments.algorithm} needs an environment: add --env CartPole-v1")
        name = f"{entry.name}_{_file_name(env or Path(data[0]).stem)}"
        words = ("--algorithm", entry.name)
        # The empty name is that of no environment.
        return Target(name, entry.path, words, env or "", overrides, arguments.parts, data)
    if not confs:
        raise BadInputError("what to train? Give a conf file, a name from `rein list zoo`, or --algorithm and --env")
    if len(confs) > 1:
        raise BadInputError(f"{confs[1]!r} is neither an override (name=value) nor an option; the conf is {confs[0]!r}")
    path = find_conf(confs[0])
    name = path.stem if env is None else f"{path.stem}_{_file_name(env)}"
    return Target(name, path, (confs[0],), env, overrides, arguments.parts, data)


def _names_data(overrides: Sequence[str]) -> bool:
    return any(override.partition("=")[0].rpartition(".")[2] == "offline_buffer_dir" for override in overrides)


def find_conf(word: str) -> Path:
    """The conf that a word names: a file, which may import modules of its folder as a script may, or an entry of the zoo."""
    path = Path(word).expanduser()
    if path.is_file():
        if (folder := str(path.parent.resolve())) not in sys.path:
            sys.path.append(folder)
        return path
    if path.suffix == ".py" or len(path.parts) > 1:
        parent = path.parent if path.parent.is_dir() else Path()
        near = did_you_mean(path.name, [one.name for one in parent.glob("*.py")])
        raise BadInputError(f"there is no conf file {word!r}.{near}")
    if word in algorithms() and word not in task_entries():
        raise BadInputError(f"{word!r} is an algorithm: write --algorithm {word} --env ID")
    return find_task(word).path


def _file_name(env: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in env).lower()
