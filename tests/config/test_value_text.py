"""Texts that say what a value does."""

import enum
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from rein.config import fresh_configs, load_config
from rein.config.value_text import value_text
from rein.networks import EncodingNetwork, NestConcat
from rein.optimizers import Adam
from rein.runtime import LinearScheduler
from rein.specs import TensorSpec


class Colour(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    left: int
    right: int = 2


@dataclass
class Options:
    depth: int
    width: int = 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (3e-4, "0.0003"),
        ([1, (2,), {}], "[1, (2,), {}]"),
        ({"b": 1, "a": 2}, "{'a': 2, 'b': 1}"),
        ({2, 1}, "{1, 2}"),
        (Colour.RED, "Colour.RED"),
        (Pair(1), "Pair(left=1)"),
        (Pair(1, 5), "Pair(left=1, right=5)"),
        (Options(1, 4), "Options(depth=1, width=4)"),
        (partial(Options, 1, width=2), "Options(1, width=2)"),
        (torch.float32, "torch.float32"),
        (torch.Size([2, 3]), "(2, 3)"),
        (torch.tensor([1, 2]), "Tensor((2,), [1, 2])"),
        (TensorSpec((2,)), "TensorSpec(shape=(2,))"),
        (Adam(lr=LinearScheduler("percent", ((0.0, 1.0), (1.0, 0.0))), name="mine"), None),
        (EncodingNetwork(TensorSpec((2,)), fc_layer_params=(3,)), None),
        (NestConcat(dim=-2), "NestConcat(dim=-2)"),
        (nn.Sequential(nn.Linear(2, 1), nn.ReLU()), None),
    ],
    ids=lambda one: type(one).__name__,
)
def test_texts_have_no_addresses_and_leave_out_defaults(value: Any, text: str | None) -> None:
    expected = {
        Adam: "Adam(lr=LinearScheduler(progress_type='percent', schedule=((0.0, 1.0), (1.0, 0.0))))",
        EncodingNetwork: "EncodingNetwork(TensorSpec(shape=(2,)), fc_layer_params=(3,))",
        nn.Sequential: "Sequential(0=Linear(bias=Parameter((1,)), in_features=2, out_features=1, weight=Parameter((1, 2))), "
        "1=ReLU())",
    }
    assert value_text(value) == (text if text is not None else expected[type(value)])


def test_what_holds_itself_has_a_text() -> None:
    endless: list[Any] = [1]
    endless.append(endless)
    assert value_text(endless) == "[1, ...]"


def function_text(folder: Path, source: str) -> str:
    conf = folder / "conf.py"
    conf.write_text(source)
    with fresh_configs():
        return value_text(load_config(conf).reward)


def test_a_function_of_a_conf_is_what_it_computes(tmp_path: Path) -> None:
    plain = function_text(tmp_path, "scale = 2\ndef reward(x):\n    return scale * x\n")
    assert plain == "def reward(x):\n    return scale * x; scale is 2"
    described = 'scale = 2\n\n\ndef reward(x: float) -> float:\n    """Twice."""\n    return scale * x  # so\n'
    assert function_text(tmp_path, described) == plain
    assert function_text(tmp_path, "scale = 3\ndef reward(x):\n    return scale * x\n") != plain
    assert function_text(tmp_path, "scale = 2\ndef reward(x):\n    return scale + x\n") != plain
    assert function_text(tmp_path, "reward = lambda x: x\n") == "lambda x: x"
    assert function_text(tmp_path, "import math\nreward = math.sin\n") == "sin"
