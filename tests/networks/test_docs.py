"""The code in docs/networks.md runs."""

import re
from pathlib import Path

import torch

from rein.config import fresh_configs
from rein.specs import TensorSpec

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"


def test_examples_run():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict = {}
    for block in blocks:
        with fresh_configs():
            exec(compile(block, str(PAGE), "exec"), names)
    assert names["values"].shape == (8, 2)
    assert names["encoder"].output_spec == TensorSpec((256,))
    recall = names["Recall"](TensorSpec((3,)))
    assert recall.state_spec == (TensorSpec((8,)),)
    replicas = recall.make_parallel(2)
    assert type(replicas).__name__ == "ParallelNetwork"
    x = torch.randn(4, 5, 3)
    got, _ = recall.unroll(x)
    torch.testing.assert_close(got[:, -1], recall.encoder(x).amax(1))
