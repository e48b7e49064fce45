"""Rendering a configuration and rebuilding a run from a saved one."""

import enum
import functools
import json
import math
import shutil

import pytest
import torch

from rein.config import (
    SavedConfigError,
    UnknownNameError,
    config,
    configurable,
    define_config,
    fresh_configs,
    get_operative_configs,
    inoperative_config_str,
    load_config,
    load_saved_config,
    operative_config_str,
    parse_config,
    pre_config,
    save_config,
)
from rein.config.render import expression

IMPORT = "from rein.config import *\n"


class Color(enum.Enum):
    RED = 1


@configurable
class Engine:
    def __init__(self, power=1, kind=None, tags=("a",)):
        self.power, self.kind, self.tags = power, kind, tags


@configurable
def build(engine_ctor=Engine, options=None, limit=math.inf):
    return engine_ctor(), options, limit


class NotWritable:
    def __repr__(self):
        return "line\nbreak \x00" + "x" * 300


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (-2.5, "-2.5"),
        (math.inf, "float('inf')"),
        ("a'b", '"a\'b"'),
        ((1,), "(1,)"),
        ((), "()"),
        ([1, (2, 3)], "[1, (2, 3)]"),
        ({"a": {2, 1}}, "{'a': {1, 2}}"),
        (set(), "set([])"),
        (frozenset({1}), "frozenset([1])"),
        (int, "int"),
        (len, "len"),
        (torch.float32, "torch.float32"),
        (torch.nn.ReLU, "torch.nn.modules.activation.ReLU"),
        (torch.nn.functional.relu, "torch.nn.functional.relu"),
        (Color.RED, f"{__name__}.Color.RED"),
        (functools.partial(math.pow, 2), "functools.partial(math.pow, 2)"),
        (functools.partial(Engine, power=2), f"functools.partial({__name__}.Engine, power=2)"),
        (lambda: 1, None),
        (NotWritable(), None),
        ([1, object()], None),
        (functools.partial(lambda: 1), None),
    ],
)
def test_expressions(value, text):
    modules = set()
    assert expression(value, modules) == text
    assert text is not None or modules == set()


def test_operative_text_is_a_conf_that_gives_the_same(write_conf):
    config({"Engine.power": 5, "build.options": {"a": [1, (2,)]}, "build.engine_ctor": functools.partial(Engine, 6)})
    define_config("my_number", 3)
    build()
    Engine(tags=())
    before = get_operative_configs()
    text = operative_config_str()
    assert "# tests" in text or "test_saving.py:" in text
    with fresh_configs():
        load_config(write_conf("operative.py", text))
        engine, options, limit = build()
        assert (engine.power, options, limit) == (6, {"a": [1, (2,)]}, math.inf)
        Engine(tags=())
        again = get_operative_configs()
    assert [name for name, _ in again] == [name for name, _ in before]
    assert str(again) == str(before)


def test_what_cannot_be_written_stands_in_a_comment(write_conf):
    config({"Engine.kind": NotWritable(), "Engine.power": 2})
    pre_config({"build.options": "x"}, place="override 'build.options=\n\"x\"'")
    Engine()
    build(Engine)
    text = operative_config_str()
    assert f"#   {__name__}.Engine.kind = line break xxx" in text
    assert max(map(len, text.splitlines())) < 300
    with fresh_configs():
        load_config(write_conf("operative.py", text))
        assert (Engine().power, Engine().kind) == (2, None)
        assert build()[1] == "x"


def test_inoperative_text():
    config({"Engine.power": 5, "build.options": 3})
    build()
    Engine(power=1)
    assert "Engine" not in inoperative_config_str()
    with fresh_configs():
        config({"Engine.power": 5})
        Engine(power=1)
        assert f"'{__name__}.Engine.power': 5," in inoperative_config_str()
    with fresh_configs():
        load = operative_config_str()
        assert "config(\n" not in load


@pytest.fixture
def run_confs(write_conf):
    write_conf("shared/base.py", IMPORT + "config('Engine', power=define_config('power', 1), tags=['b'])\n")
    return write_conf(
        "confs/main.py",
        IMPORT + "import_config('../shared/base.py')\nfrom functools import partial\n"
        "config('build', options=lambda: 4)\nconfig('Engine', tags=('c',))\n",
    )


def test_saved_run_is_rebuilt_without_the_originals(run_confs, tmp_path):
    parse_config(run_confs, ["power=7", "Engine.kind=@build"])
    config("build", limit=9)
    engine, options, limit = build()
    save_config(tmp_path / "run")
    saved = sorted(
        path.relative_to(tmp_path / "run").as_posix() for path in (tmp_path / "run").rglob("*") if path.is_file()
    )
    assert saved == ["conf/confs/main.py", "conf/shared/base.py", "operative.py", "overrides.json", "values.json"]
    assert (tmp_path / "run/conf/confs/main.py").read_text() == run_confs.read_text()
    shutil.rmtree(tmp_path / "confs")
    shutil.rmtree(tmp_path / "shared")
    shutil.move(tmp_path / "run", tmp_path / "moved")
    with fresh_configs():
        load_saved_config(tmp_path / "moved", trust=True)
        again, options_again, limit_again = build()
        assert (again.power, again.tags, again.kind, limit_again) == (7, ("c",), build, 9)
        assert (engine.power, engine.tags, engine.kind, limit) == (7, ("c",), build, 9)
        assert options() == options_again() == 4
        save_config(tmp_path / "moved")
        save_config(tmp_path / "copy")
    for name in ("overrides.json", "conf/confs/main.py", "conf/shared/base.py"):
        assert (tmp_path / "copy" / name).read_bytes() == (tmp_path / "moved" / name).read_bytes()


def test_absolute_imports_lead_to_the_saved_copies(write_conf, tmp_path):
    base = write_conf("elsewhere/base.py", IMPORT + "config('Engine', power=3)\n")
    main = write_conf("main.py", IMPORT + f"import_config({str(base)!r})\n")
    load_config(main)
    save_config(tmp_path / "run")
    base.write_text(IMPORT + "config('Engine', power=1000)\n")
    with fresh_configs():
        load_saved_config(tmp_path / "run")
        assert Engine().power == 3


def test_text_saved_is_the_text_that_was_run(write_conf, tmp_path):
    path = write_conf("main.py", IMPORT + "config('Engine', power=3)\r\n")
    load_config(path)
    path.write_text("edited later")
    save_config(tmp_path / "run")
    with fresh_configs():
        load_saved_config(tmp_path / "run")
        assert Engine().power == 3


def test_saving_again_updates_the_operative_part_only(run_confs, tmp_path):
    parse_config(run_confs)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/events.log").write_text("kept")
    save_config(tmp_path / "run")
    assert "Engine.power" not in (tmp_path / "run/operative.py").read_text()
    Engine()
    save_config(tmp_path / "run")
    assert "Engine.power" in (tmp_path / "run/operative.py").read_text()
    assert (tmp_path / "run/events.log").read_text() == "kept"


def _contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_different_configuration_is_never_overwritten(run_confs, write_conf, tmp_path):
    parse_config(run_confs)
    save_config(tmp_path / "run")
    before = _contents(tmp_path / "run")
    with fresh_configs():
        parse_config(run_confs, ["power=2"])
        with pytest.raises(
            SavedConfigError, match=r"different configuration \(.*overrides.json\); nothing was written"
        ):
            save_config(tmp_path / "run")
    with fresh_configs():
        load_config(write_conf("other.py", IMPORT))
        with pytest.raises(SavedConfigError, match="different configuration"):
            save_config(tmp_path / "run")
    assert _contents(tmp_path / "run") == before
    write_conf("mine/operative.py", "precious = 1\n")
    with pytest.raises(SavedConfigError, match=r"operative.py"):
        save_config(tmp_path / "mine")
    assert list(_contents(tmp_path / "mine").values()) == [b"precious = 1\n"]


class Changing:
    """Shows how often it was used, as an optimizer shows its parameters once it has some."""

    def __init__(self):
        self.uses = 0

    def __repr__(self):
        return f"Changing({self.uses})"


def test_a_value_may_look_different_after_use(tmp_path):
    value = Changing()
    config({"Engine.kind": value})
    save_config(tmp_path / "run")
    before = (tmp_path / "run/overrides.json").read_bytes()
    assert b"Changing(0)" in before
    value.uses = 1
    save_config(tmp_path / "run")
    assert (tmp_path / "run/overrides.json").read_bytes() == before
    with fresh_configs():
        config({"Engine.kind": object()})
        with pytest.raises(SavedConfigError, match="different configuration"):
            save_config(tmp_path / "run")
    (tmp_path / "run/overrides.json").write_text("damaged")
    with pytest.raises(SavedConfigError, match="different configuration"):
        save_config(tmp_path / "run")


def test_interrupted_save_is_completed(run_confs, tmp_path):
    parse_config(run_confs)
    save_config(tmp_path / "whole")
    save_config(tmp_path / "run")
    (tmp_path / "run/overrides.json").unlink()
    (tmp_path / "run/operative.py").unlink()
    (tmp_path / "run/conf/shared/base.py").unlink()
    (tmp_path / "run/conf/shared/.base.py.x1").write_text("left by a crash")
    save_config(tmp_path / "run")
    assert (tmp_path / "run/overrides.json").read_bytes() == (tmp_path / "whole/overrides.json").read_bytes()
    assert (tmp_path / "run/conf/shared/base.py").is_file()


def test_values_that_are_no_literals_must_be_supplied(tmp_path):
    marker = object()
    config({"Engine.kind": marker, "Engine.power": 4})
    pre_config({"build.options": marker})
    save_config(tmp_path / "run")
    with fresh_configs() as configs:
        with pytest.raises(SavedConfigError, match=r"Engine.kind = <object") as error:
            load_saved_config(tmp_path / "run")
        assert "build.options = <object" in str(error.value)
        assert configs.settings == {}
        supply = {f"{__name__}.Engine.kind": 5, "build.options": 6}
        load_saved_config(tmp_path / "run", supply=supply)
        assert (Engine().kind, Engine().power, build()[1]) == (5, 4, 6)


def test_unknown_name_in_a_saved_configuration_changes_nothing(tmp_path):
    config("Engine", power=4)
    save_config(tmp_path / "run")
    path = tmp_path / "run/overrides.json"
    path.write_text(path.read_text().replace("Engine.power", "Engine.powr"))
    with fresh_configs() as configs:
        with pytest.raises(UnknownNameError, match="Did you mean 'power'"):
            load_saved_config(tmp_path / "run")
        assert (configs.settings, configs.pre_settings) == ({}, [])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda index: "{", "is damaged"),
        (lambda index: "[]", "not in format 1"),
        (lambda index: json.dumps({**index, "format": 2}), "not in format 1"),
        (lambda index: json.dumps({**index, "main": {}}), "'main' is no list"),
        (lambda index: json.dumps({**index, "imports": {"a": 3}}), "something else than dicts"),
        (lambda index: json.dumps({**index, "main": ["../../main.py"]}), "holds no file '../../main.py'"),
        (lambda index: json.dumps({**index, "main": ["/etc/hostname"]}), "holds no file '/etc/hostname'"),
        (lambda index: json.dumps({**index, "overrides": {"Engine.power": "__import__('os')"}}), "is damaged"),
        (lambda index: json.dumps({**index, "overrides": {"Engine.power": 3, "a b": "1"}}), "is damaged"),
    ],
)
def test_damaged_index_is_refused(damage, message, run_confs, tmp_path):
    load_config(run_confs)
    save_config(tmp_path / "run")
    path = tmp_path / "run/overrides.json"
    path.write_text(damage(json.loads(path.read_text())))
    with fresh_configs() as configs:
        with pytest.raises(SavedConfigError) as error:
            load_saved_config(tmp_path / "run")
        assert message in str(error.value)
        assert configs.settings == {}


def test_directory_without_configuration(tmp_path):
    with pytest.raises(SavedConfigError, match=r"holds no saved configuration: there is no overrides.json"):
        load_saved_config(tmp_path)


def test_failed_write_leaves_the_old_file(run_confs, tmp_path, monkeypatch):
    load_config(run_confs)
    save_config(tmp_path / "run")
    before = _contents(tmp_path / "run")
    Engine()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_config(tmp_path / "run")
    assert _contents(tmp_path / "run") == before
