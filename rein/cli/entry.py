"""Parsing, dispatch and exit codes; commands and what they need are imported only when used."""

import argparse
import json
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

import rein
from rein.cli.command import (
    BAD_INPUT,
    FAILURE,
    INTERRUPTED,
    OK,
    BadInputError,
    Outcome,
    Parser,
    Session,
    add_common_arguments,
)
from rein.config.names import did_you_mean

_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):\n((?: .*\n)+).*\n", re.MULTILINE)
_FRAME = re.compile(r'^ *File "(.*)", line ([0-9]+)', re.MULTILINE)

COMMANDS = {
    "train": "train an agent from a conf, the zoo, or an algorithm and an environment",
    "resume": "go on with a run that was stopped, or train a finished one longer",
    "evaluate": "measure a trained policy on held-out seeds",
    "play": "watch a trained policy, or record it as mp4 or gif",
    "plot": "draw curves of runs, with confidence bands over seeds",
    "compare": "say which runs are better, and how sure that is",
    "report": "write report.html of a run",
    "board": "show runs on a live page in the browser",
    "sweep": "train with many settings and seeds in parallel",
    "export": "write a trained policy as ONNX or torch file, complete and compared with the original",
    "card": "write a folder for a model hub: card, weights, settings, agent",
    "show": "show the configuration, networks and optimizers of a run or conf",
    "record": "record a data set from a run, to learn from offline",
    "data": "show, join and exchange data sets",
    "verify": "train zoo entries from scratch and compare them with their bars",
    "check-env": "try an environment and say what is wrong with it",
    "cluster": "say what a Ray cluster has, and whether Rein would run there",
    "doctor": "say what this machine and installation have, and what to mend",
    "list": "list algorithms, zoo and environments",
    "demo": "train PPO on CartPole-v1 in about half a minute",
}

_MODULE = re.compile(r"(?:--\w+=)?[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""`module:Name`, by which a world or a callback of the user is found."""

_MOST_NOTES = 2
_EXPECTED = (ValueError, TypeError, ImportError, OSError)

_HELP = """usage: rein COMMAND ...

Reinforcement learning where an agent is a composition of algorithms.

commands:
{commands}

example:
  rein train ppo_cartpole --dir runs/first
  rein evaluate runs/first
  rein play runs/first --output first.mp4

`rein COMMAND --help` explains a command. Every command takes --json for output that programs can read and --debug
for tracebacks. Exit codes: 0 done, 1 failed, 2 bad input, 130 and 143 stopped by SIGINT (Ctrl-C) and SIGTERM."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line and returns the exit code.

    Args:
        argv: without the name of the program; None takes it from the process.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    session = Session(words)
    try:
        outcome = _execute(words, session)
        _print(outcome, session)
    except SystemExit as stop:  # argparse leaves this way after --help
        return stop.code if isinstance(stop.code, int) else FAILURE
    except KeyboardInterrupt as stop:
        print("rein: interrupted", file=sys.stderr)
        return 128 + stop.number if hasattr(stop, "number") else INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left; nothing more can be said, not even when Python closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except Exception as error:
        return _report_error(error, session, debug="--debug" in words)
    return outcome.exit_code


def make_parser(name: str) -> argparse.ArgumentParser:
    """The parser of one command."""
    module = _module(name)
    description, _, example = (module.__doc__ or "").partition("Example:")
    parser = Parser(
        prog=f"rein {name}",
        description=textwrap.dedent(description).strip(),
        epilog="example:\n" + textwrap.indent(textwrap.dedent(example).strip("\n"), "  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    add_common_arguments(parser)
    return parser


def _execute(words: list[str], session: Session) -> Outcome:
    if not words or words[0] in ("-h", "--help", "help"):
        return Outcome({"commands": COMMANDS}, _HELP.format(commands=_command_list()), OK if words else BAD_INPUT)
    if words[0] in ("-V", "--version"):
        return Outcome({"version": rein.__version__}, rein.__version__)
    name = words[0]
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS) or " `rein --help` lists the commands."
        raise BadInputError(f"there is no command {name!r}.{hint}")
    arguments = make_parser(name).parse_intermixed_args(words[1:])
    if "--trust" in words or any(_MODULE.match(word) for word in words):
        sys.path.append(os.getcwd())  # modules of the folder that we are in; a console script starts without it
    outcome: Outcome = _module(name).run(arguments, session)
    return outcome


def _print(outcome: Outcome, session: Session) -> None:
    if session.as_json:
        print(json.dumps(outcome.data, indent=2, default=str), flush=True)
    elif outcome.text:
        print(outcome.text, flush=True)


def _module(name: str) -> ModuleType:
    return import_module(f"rein.cli.{name.replace('-', '_')}_command")


def _command_list() -> str:
    return "\n".join(f"  {name:<10}{text}" for name, text in COMMANDS.items())


def _without_traceback(text: str) -> str:
    """A message that quotes a traceback, with the innermost place in its stead: in one line it could not be read."""

    def place(found: re.Match[str]) -> str:
        path, line = _FRAME.findall(found[1])[-1]
        return f"at {os.path.relpath(path) if path.startswith(os.getcwd()) else path}:{line}\n"

    return _TRACEBACK.sub(place, text)


def _report_error(error: Exception, session: Session, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    is_bad_input = isinstance(error, _EXPECTED) and not session.is_working
    message = " ".join(_without_traceback(str(error)).split()) or type(error).__name__
    notes = [" ".join(note.split()) for note in getattr(error, "__notes__", ())]
    message += f" ({'; '.join(notes[:_MOST_NOTES])})" if notes else ""
    if not isinstance(error, _EXPECTED):
        message = f"{type(error).__name__}: {message}"
    hint = "" if debug or is_bad_input else " (--debug shows where)"
    print(f"rein: {'error' if is_bad_input else 'failed'}: {message}{hint}", file=sys.stderr)
    if session.as_json:
        print(json.dumps({"error": {"type": type(error).__name__, "message": str(error)}}, indent=2))
    return BAD_INPUT if is_bad_input else FAILURE
