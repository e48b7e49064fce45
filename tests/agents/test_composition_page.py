"""The examples of docs/composition.md run."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch

from rein.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "composition.md"


BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
COMMANDS = [line[2:].partition("  #")[0] for line in PAGE.read_text().splitlines() if line.startswith("$ rein ")]


def test_examples_run() -> None:
    torch.manual_seed(0)
    blocks = [block for block in BLOCKS if not block.startswith("# my_conf.py")]
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    part = names["count_bonus"](num_cells=2)
    assert isinstance(part["intrinsic_reward_module"](names["env"].observation_spec, None), names["CountBonus"])
    component = blocks[-1].split("explorer = ")[0]
    assert len([line for line in component.splitlines() if line.strip()]) <= 40
    explorer = names["explorer"]
    counts = explorer._irm._counts
    assert counts.sum() == 4 * 33  # a step of each of four environments, and the one that is only looked at
    bonus = names["CountBonus"](names["env"].observation_spec, num_cells=2, low=0.0, high=1.0)
    from rein.data_structures import TimeStep

    for expected in (1.0, 0.5**0.5, (1 / 3) ** 0.5):
        output = bonus.rollout_step(
            TimeStep(observation=torch.full((1, bonus._counts.numel().bit_length() - 1), 0.9))
        ).output
        torch.testing.assert_close(output, torch.tensor([expected]))


def test_the_conf_makes_an_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = (block for block in BLOCKS if block.startswith("# my_conf.py"))
    (tmp_path / "my_conf.py").write_text(block)
    assert main(["show", str(tmp_path / "my_conf.py")]) == 0
    text = capsys.readouterr().out
    assert "RNDAlgorithm" in text
    assert "SGDEntropyTargetAlgorithm" in text


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_do_what_the_page_says(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, name, *words = shlex.split(line)
    # Training is long; `show` builds the same agent and refuses the same.
    code = main(["show" if name == "train" else name, *words])
    captured = capsys.readouterr()
    error = PAGE.read_text().partition(f"$ {line}\nrein: error: ")[2].partition("\n")[0].removesuffix(" ...")
    assert code == (2 if error else 0)
    assert error in captured.err


def test_the_tree_is_what_show_prints(capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = re.findall(
        r"```console\n\$ rein (show --algorithm ppo [^\n]*)\n(agent .*?)```", PAGE.read_text(), re.DOTALL
    )
    assert main(shown[0].split()) == 0
    printed = capsys.readouterr().out.splitlines()
    assert all(line in printed for line in shown[1].splitlines() if line != "...")
