"""A saved configuration is rebuilt from data; its code is run only for those who trust it."""

import enum
import functools
import json
import math
import os
import sys

import numpy as np
import pytest
import torch
from torch import nn

from rein.config import (
    SavedConfigError,
    UntrustedCodeError,
    config,
    configurable,
    fresh_configs,
    get_config_value,
    load_saved_config,
    parse_config,
    save_config,
)
from rein.config.data_values import Decoder, Encoder, NotDataError
from rein.data_structures import StepType
from rein.networks import ValueNetwork
from rein.optimizers import Adam
from rein.runtime.schedules import LinearScheduler


@configurable
class Wheel:
    def __init__(self, size=1, kind=None, other=None):
        self.size, self.kind, self.other = size, kind, other


class Color(enum.Enum):
    RED = 1


def _again(value):
    return Decoder().decode(json.loads(json.dumps(Encoder().encode(value))))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -3,
        2.5,
        math.inf,
        "text",
        "cuda:0",
        b"\x00\xff",
        (1, (2, [3])),
        {"a": {1, 2}, 3: frozenset([4])},
        torch.float16,
        torch.relu,
        torch.nn.functional.softplus,
        nn.ReLU,
        nn.init.orthogonal_,
        np.float32,
        int,
        math.exp,
        StepType.LAST,
        Wheel,
        ValueNetwork,
        LinearScheduler("percent", [(0.0, 1.0), (1.0, 0.1)]),
    ],
)
def test_data_comes_back_as_it_was(value):
    again = _again(value)
    assert again == value
    assert type(again) is type(value)


def test_partials_and_optimizers_come_back():
    made = _again(functools.partial(Wheel, 3, kind=functools.partial(torch.softmax, dim=-1)))
    assert made().size == 3
    assert made().kind(torch.zeros(2)).tolist() == [0.5, 0.5]
    optimizer = _again(Adam(lr=0.25, gradient_clipping=1.5))
    assert type(optimizer) is Adam
    assert optimizer.settings == Adam(lr=0.25, gradient_clipping=1.5).settings


def test_an_object_that_two_values_share_stays_one():
    shared = Adam(lr=0.5)
    first, second, other = _again([shared, shared, Adam(lr=0.5)])
    assert first is second
    assert first is not other


@pytest.mark.parametrize("value", [lambda: 1, object(), torch.zeros(2), functools.partial(lambda: 1), [lambda: 2]])
def test_code_is_no_data(value):
    with pytest.raises(NotDataError):
        Encoder().encode(value)


@pytest.mark.parametrize(
    "data",
    [
        {"$name": "os:system"},
        {"$name": "subprocess:Popen"},
        {"$name": "builtins:eval"},
        {"$name": "builtins:__import__"},
        {"$name": "rein.config.conf_files:load_config"},
        {"$name": "rein.runtime.processes.sending:unpack"},
        {"$name": "rein.networks.network:torch"},
        {"$name": "rein.networks.network:torch.hub.load"},
        {"$name": "torch.hub:load"},
        {"$name": "torch.nn.modules.module:warnings.sys"},
        {"$name": "rein.training.trainer:Trainer"},
        {"$name": "not_imported_anywhere:Thing"},
        {"$partial": "os:system", "args": ["true"], "keywords": {}},
        {"$call": "subprocess:Popen", "args": ["true"], "keywords": {}, "number": 0},
        {"$call": "rein.config.conf_files:load_config", "args": ["x.py"], "keywords": {}, "number": 0},
        {"$enum": "os:environ", "member": "HOME"},
        {"$dtype": "hub"},
        {"$unknown": 1},
        {"$same": 7},
        {"$name": "rein.networks.network:Network.__init__"},
        "json.tool:Thing",
        ["a", {"$tuple": ["antigravity:World-v0"]}],
    ],
)
def test_hostile_values_are_refused(data, monkeypatch):
    for name in ("antigravity", "json.tool"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises((NotDataError, ValueError), match=r"."):
        Decoder().decode(data)
    assert not {"antigravity", "json.tool", "not_imported_anywhere"} & set(sys.modules)


def test_values_nested_too_deep_are_refused():
    data = 1
    for _ in range(10_000):
        data = [data]
    with pytest.raises(ValueError, match="nested"):
        Decoder().decode(data)


CONF = """
import functools
from pathlib import Path
from rein.config import *
from rein.optimizers import Adam
Path({marker!r}).touch()
size = define_config("size", 2)
config("Wheel", size=size, kind=functools.partial(dict, a=1), other=Adam(lr=0.5))
"""


@pytest.fixture
def saved(write_conf, tmp_path):
    """A run of a conf that leaves a mark whenever it runs."""
    marker = tmp_path / "executed"
    with fresh_configs():
        parse_config(write_conf("mine.py", CONF.format(marker=str(marker))), ["size=5"])
        save_config(tmp_path / "run")
    marker.unlink()
    return tmp_path / "run", marker


def test_a_conf_is_not_run_again(saved, tmp_path):
    run, marker = saved
    with fresh_configs():
        load_saved_config(run)
        wheel = Wheel()
        assert (wheel.size, wheel.kind(), wheel.other.settings["lr"]) == (5, {"a": 1}, 0.5)
        assert get_config_value("size") == 5
        save_config(run)
        save_config(tmp_path / "copy")
    assert not marker.exists()
    for name in ("overrides.json", "values.json", "conf/mine.py"):
        assert (tmp_path / "copy" / name).read_bytes() == (run / name).read_bytes()
    with fresh_configs():
        load_saved_config(run, trust=True)
    assert marker.exists()


def test_code_in_a_conf_needs_trust(write_conf, tmp_path):
    with fresh_configs():
        parse_config(write_conf("mine.py", "from rein.config import *\nconfig('Wheel', kind=lambda: 4)\n"))
        save_config(tmp_path / "run")
    with fresh_configs() as configs:
        with pytest.raises(UntrustedCodeError, match=r"Wheel.kind: .*<lambda> is code that a conf defines") as error:
            load_saved_config(tmp_path / "run")
        assert "--trust" in str(error.value)
        assert configs.settings == {}
        load_saved_config(tmp_path / "run", trust=True)
        assert Wheel().kind() == 4


def test_a_run_without_values_needs_trust(saved):
    run, marker = saved
    (run / "values.json").unlink()
    with fresh_configs(), pytest.raises(UntrustedCodeError, match=r"conf/mine.py would be run"):
        load_saved_config(run)
    assert not marker.exists()


def test_own_modules_are_not_imported(write_conf, tmp_path, monkeypatch):
    (tmp_path / "own_wheels.py").write_text(
        f"from pathlib import Path\nfrom rein.config import configurable\nPath({str(tmp_path / 'imported')!r}).touch()\n"
        "@configurable\nclass Spoke:\n    def __init__(self, length=1): self.length = length\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    text = "from rein.config import *\nimport own_wheels\nconfig('Wheel', kind=own_wheels.Spoke)\nconfig('Spoke', length=3)\n"
    with fresh_configs():
        parse_config(write_conf("mine.py", text))
        save_config(tmp_path / "run")
    with fresh_configs():
        load_saved_config(tmp_path / "run")  # It is imported already.
        assert Wheel().kind().length == 3
    (tmp_path / "imported").unlink()
    monkeypatch.delitem(sys.modules, "own_wheels")
    with fresh_configs(), pytest.raises(UntrustedCodeError, match="would import the module own_wheels"):
        load_saved_config(tmp_path / "run")
    assert not (tmp_path / "imported").exists()


def test_a_world_by_module_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "own_worlds.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with fresh_configs():
        config("Wheel", kind="own_worlds:World-v0", other={"a": ["own_worlds.inner:World-v0"]})
        save_config(tmp_path / "run")
    with fresh_configs():
        with pytest.raises(UntrustedCodeError, match="would import the module own_worlds") as error:
            load_saved_config(tmp_path / "run")
        assert "own_worlds.inner" in str(error.value)
        load_saved_config(tmp_path / "run", trust=True)
        assert Wheel().kind == "own_worlds:World-v0"
    assert not (tmp_path / "imported").exists()


def test_pipes_links_and_giants_are_refused_at_once(saved, tmp_path):
    run, _ = saved
    index = (run / "overrides.json").read_bytes()
    for damage in ("pipe", "link", "deep"):
        (run / "overrides.json").unlink()
        if damage == "pipe":
            os.mkfifo(run / "overrides.json")
        elif damage == "link":
            (tmp_path / "outside.json").write_bytes(index)
            (run / "overrides.json").symlink_to(tmp_path / "outside.json")
        else:
            (run / "overrides.json").write_text("[" * 100_000 + "]" * 100_000)
        with fresh_configs(), pytest.raises(SavedConfigError, match=r"no regular file|outside of|damaged"):
            load_saved_config(run)
