"""The examples of docs/distributed.md run, and its commands can be understood."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from rein.cli.entry import make_parser

TEXT = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text()
COMMANDS = re.findall(r"^\S*\$ (rein train .*)$", TEXT, re.MULTILINE)


def test_examples_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, "distributed.md", "exec"), names)
    assert names["replica"].iter == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_parse(command: str) -> None:
    make_parser("train").parse_intermixed_args(shlex.split(command)[2:])


def test_there_are_commands() -> None:
    assert len(COMMANDS) == 12
