"""The code in docs/representation.md runs."""

import re
from pathlib import Path

import torch

from rein.config import fresh_configs
from rein.specs import TensorSpec

PAGE = Path(__file__).parents[3] / "docs" / "representation.md"


def test_examples_run():
    torch.manual_seed(0)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        with fresh_configs():
            exec(compile(block, str(PAGE), "exec"), names)
    assert names["agent"]._rl_algorithm.observation_spec == TensorSpec((4,))
    assert names["error"] < 0.02
    assert names["masks"].shape == (64, 3, 16, 16)
    assert [file.name for file in names["files"]] == ["reconstructions.png", "traversals.png"]
    assert names["test_error"] < 1.0
