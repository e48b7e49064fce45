"""What a command is: a module with `add_arguments(parser)` and `run(arguments, session)`."""

import argparse
import shlex
import sys
from typing import IO, Any, NamedTuple, NoReturn

OK, FAILURE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


class Outcome(NamedTuple):
    """What a command has to say."""

    data: dict[str, Any]
    """Printed with --json."""
    text: str = ""
    """Printed without."""
    exit_code: int = OK


class Session:
    """One execution of a command.

    Attributes:
        as_json: whether stdout is for JSON only.
        command: the command line, to be given again.
        is_working: whether the input was found good, so that an error from now on is a failure.
    """

    def __init__(self, words: list[str]) -> None:
        self.as_json = "--json" in words
        self.command = shlex.join(["rein", *(word for word in words if word not in ("--json", "--debug"))])
        self.is_working = False

    @property
    def stream(self) -> IO[str]:
        """Where to show what is going on."""
        return sys.stderr if self.as_json else sys.stdout

    def start_working(self) -> None:
        """Says that the input is good."""
        self.is_working = True


class BadInputError(ValueError):
    """What the user wrote cannot be done; the message says what to change."""


class Parser(argparse.ArgumentParser):
    """A parser that raises instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        """Raises `BadInputError`."""
        raise BadInputError(f"{message}; `{self.prog} --help` shows what is possible")


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what every command understands."""
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else, to stdout")
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")


def add_machine_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --device and --threads."""
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cpu)")
    parser.add_argument(
        "--threads",
        type=_threads,
        default="auto",
        metavar="N",
        help='threads of one torch operation, or "auto" (default): a training finds the best number by measurement',
    )


def _threads(text: str) -> int | str:
    if text != "auto" and not (text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f'{text!r} is impossible: give "auto", or at least one thread')
    return text if text == "auto" else int(text)


def add_checkpoint_argument(parser: argparse.ArgumentParser) -> None:
    """Adds --checkpoint."""
    parser.add_argument(
        "--checkpoint",
        type=lambda text: int(text) if text.lstrip("-").isdigit() else text,
        metavar="ITERATION",
        help='checkpoint to load, or the name of a policy that a callback has kept, such as "best" (default: the newest)',
    )


def add_callback_argument(parser: argparse.ArgumentParser) -> None:
    """Adds --callback."""
    parser.add_argument(
        "--callback",
        action="append",
        default=[],
        dest="callbacks",
        metavar="CALLBACK",
        help="what to do on the way, such as keep_best, stop_at_return=475 or my_module:Class(limit=3); repeatable",
    )


def add_sink_argument(parser: argparse.ArgumentParser) -> None:
    """Adds --sink."""
    parser.add_argument(
        "--sink",
        action="append",
        default=[],
        dest="sinks",
        metavar="SINK",
        help="where numbers go besides TensorBoard: csv, wandb, \"mlflow='sqlite:///FILE'\", my_module:Class; repeatable",
    )


def configure_watchers(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that --callback and --sink give, by name."""
    given = {"create_callbacks.callbacks": arguments.callbacks, "create_sinks.sinks": arguments.sinks}
    return {name: texts for name, texts in given.items() if texts}


def add_trust_argument(parser: argparse.ArgumentParser) -> None:
    """Adds --trust."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run code that was saved with the run or that it names; only for runs whose author you trust",
    )


def add_saving_argument(parser: argparse.ArgumentParser) -> None:
    """Adds --fail-on-save-error."""
    parser.add_argument(
        "--fail-on-save-error",
        action="store_true",
        help="stop when a checkpoint cannot be written; without, training goes on with a warning and tries again later",
    )
