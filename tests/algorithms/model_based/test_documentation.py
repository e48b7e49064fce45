"""The examples of docs/model_based.md run, and its commands name what there is."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch

from rein.zoo import find_algorithm

PAGE = Path(__file__).parents[3] / "docs" / "model_based.md"
TEXT = PAGE.read_text()
COMMANDS = [line[2:].partition("  #")[0] for line in TEXT.splitlines() if line.startswith("$ rein train ")]


def test_examples_run() -> None:
    torch.manual_seed(0)
    names: dict[str, Any] = {"__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_can_be_understood(command: str) -> None:
    import argparse

    from rein.cli.target import add_target_arguments, read_target
    from rein.config import fresh_configs

    parser = argparse.ArgumentParser()
    add_target_arguments(parser)
    target = read_target(parser.parse_args(shlex.split(command)[2:]))
    assert find_algorithm(target.words[1]).path == target.conf
    with fresh_configs():
        target.configure()
