"""The examples of docs/composition.md run."""

import re
from pathlib import Path
from typing import Any

import torch

PAGE = Path(__file__).parents[2] / "docs" / "composition.md"


def test_examples_run() -> None:
    torch.manual_seed(0)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
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
