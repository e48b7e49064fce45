"""Conf files: running, importing, replacing, failing."""

import os
import pickle
import sys
import warnings

import pytest

from rein.config import (
    ConfFileError,
    ConfigError,
    ConfigWarning,
    GivenTooLateError,
    GivenTwiceError,
    OverrideSyntaxError,
    UnknownNameError,
    config,
    configurable,
    fresh_configs,
    get_config_value,
    get_operative_configs,
    import_config,
    load_config,
    parse_config,
)

IMPORT = "from rein.config import *\n"


@configurable
def drive(speed=1, gear=1, radio=None):
    return speed, gear, radio


def test_a_conf_gives_values_and_is_a_module(write_conf):
    module = load_config(write_conf("fast.py", IMPORT + "limit = 50\nconfig('drive', speed=limit)\n"))
    assert drive() == (50, 1, None)
    assert (module.limit, module.__name__) == (50, "rein_conf.fast")


def test_path_is_relative_to_the_working_directory(write_conf, tmp_path, monkeypatch):
    write_conf("sub/fast.py", IMPORT + "config('drive', speed=2)\n")
    monkeypatch.chdir(tmp_path)
    load_config(os.path.join("sub", "fast.py"))
    assert drive()[0] == 2


def test_errors_name_file_and_line_of_the_conf(write_conf):
    path = write_conf("typo.py", IMPORT + "\nconfig({\n    'drive.speed': 1,\n    'drive.gaer': 2,\n})\n")
    with pytest.raises(UnknownNameError) as error:
        load_config(path)
    assert str(error.value).startswith(f"{path}:5: 'drive' has no parameter 'gaer'. Did you mean 'gear'?")


def test_failed_conf_configures_nothing_and_can_be_loaded_again(write_conf, nothing_configured):
    path = write_conf(
        "typo.py",
        IMPORT
        + "define_config('n', 1)\nconfig('drive', speed=2)\n@configurable\ndef f(): pass\nconfig('drive', gaer=3)\n",
    )
    with pytest.raises(UnknownNameError):
        load_config(path)
    assert nothing_configured.settings == {}
    assert nothing_configured.conf_files == {}
    assert "rein_conf.typo" not in sys.modules
    assert list(nothing_configured.conf_names) == []
    write_conf("typo.py", IMPORT + "define_config('n', 1)\nconfig('drive', speed=2)\nconfig('drive', gear=3)\n")
    load_config(path)
    assert drive() == (2, 3, None)


def test_imports_are_relative_to_the_importing_conf_and_run_once(write_conf):
    write_conf("base/deep.py", IMPORT + "config('drive', gear=4)\nruns.append(1) if 'runs' in dir() else None\nk = 3\n")
    write_conf("base/mid.py", IMPORT + "deep = import_config('deep.py')\n")
    main = write_conf(
        "confs/main.py",
        IMPORT + "mid = import_config('../base/mid.py')\ndeep = import_config('../base/deep.py')\n"
        "config('drive', speed=deep.k)\n",
    )
    module = load_config(main)
    assert module.mid.deep is module.deep
    assert drive() == (3, 4, None)


def test_importing_conf_may_replace_what_the_imported_gave(write_conf):
    write_conf("deep.py", IMPORT + "config('drive', speed=1, gear=1)\n")
    write_conf("mid.py", IMPORT + "import_config('deep.py')\nconfig('drive', gear=2)\n")
    load_config(write_conf("main.py", IMPORT + "import_config('mid.py')\nconfig('drive', speed=3)\n"))
    config("drive", gear=20)
    assert drive() == (3, 20, None)


def test_twice_in_one_conf_is_an_error(write_conf):
    path = write_conf("main.py", IMPORT + "config('drive', speed=1)\nconfig({'drive.speed': 1})\n")
    with pytest.raises(GivenTwiceError) as error:
        load_config(path)
    assert str(error.value).startswith(f"{path}:3: ")
    assert f"given twice, also at {path}:2." in str(error.value)


def test_of_two_imported_confs_the_second_wins_with_a_warning(write_conf):
    one = write_conf("one.py", IMPORT + "config('drive', speed=1)\n")
    two = write_conf("two.py", IMPORT + "config('drive', speed=2)\n")
    main = write_conf("main.py", IMPORT + "import_config('one.py')\nimport_config('two.py')\n")
    with fresh_configs():
        with pytest.warns(ConfigWarning, match="given twice: this replaces") as caught:
            load_config(main)
        assert drive()[0] == 2
    assert f"{one}:2" in str(caught[0].message)
    assert (caught[0].filename, caught[0].lineno) == (str(two), 2)
    two.write_text(IMPORT + "config('drive', speed=2, replace=True)\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_config(main)
    assert drive()[0] == 2


def test_what_an_imported_conf_gives_afterwards_wins_with_a_warning(write_conf):
    write_conf("late.py", IMPORT + "config('drive', speed=2)\n")
    main = write_conf("main.py", IMPORT + "config('drive', speed=1)\nimport_config('late.py')\n")
    with pytest.warns(
        ConfigWarning, match=r"drive.speed' is given twice: this replaces the value given at .*main.py:2"
    ):
        load_config(main)
    assert drive()[0] == 2


def test_conf_may_not_replace_what_code_gave_before(write_conf):
    config("drive", speed=1)
    with pytest.raises(GivenTwiceError):
        load_config(write_conf("main.py", IMPORT + "config('drive', speed=2)\n"))


def test_value_used_by_the_conf_is_too_late(write_conf):
    path = write_conf("main.py", IMPORT + "get_config_value('drive.speed')\nconfig('drive', speed=1)\n")
    with pytest.raises(GivenTooLateError) as error:
        load_config(path)
    assert f"first used at {path}:2." in str(error.value)


def test_circular_import(write_conf):
    write_conf("a.py", IMPORT + "import_config('b.py')\n")
    path = write_conf("b.py", IMPORT + "import_config('a.py')\n")
    with pytest.raises(ConfFileError, match=r"in a circle: .*b.py -> .*a.py -> .*b.py"):
        load_config(path)


def test_missing_files_suggest_the_nearest(write_conf):
    write_conf("pendulum.py", "")
    path = write_conf("main.py", IMPORT + "import_config('pendulun.py')\n")
    with pytest.raises(ConfFileError) as error:
        load_config(path)
    assert str(error.value).startswith(f"{path}:2: there is no conf file 'pendulun.py'")
    assert "Did you mean 'pendulum.py'?" in str(error.value)
    with pytest.raises(ConfFileError, match="there is no conf file"):
        load_config("nowhere/at/all.py")


def test_unreadable_confs(write_conf, tmp_path):
    with pytest.raises(ConfFileError, match=r"bad.py:2: not valid Python: .*: x = \("):
        load_config(write_conf("bad.py", "y = 1\nx = (\n"))
    (tmp_path / "latin.py").write_bytes(b"x = '\xe9'\n")
    with pytest.raises(ConfFileError, match="not a Python text in UTF-8"):
        load_config(tmp_path / "latin.py")
    (tmp_path / "null.py").write_bytes(b"x = 1\x00\n")
    with pytest.raises(ConfFileError, match=r"null.py"):
        load_config(tmp_path / "null.py")


def test_other_errors_of_a_conf_pass_through_with_a_note(write_conf):
    path = write_conf("main.py", "1 / 0\n")
    with pytest.raises(ZeroDivisionError) as error:
        load_config(path)
    assert error.value.__notes__ == [f"at {path}:1: 1 / 0"]


def test_loading_twice_or_inside_a_conf_is_explained(write_conf):
    path = write_conf("main.py", IMPORT)
    load_config(path)
    with pytest.raises(ConfFileError, match=r"already loaded. Call reset_configs\(\) first"):
        load_config(path)
    with pytest.raises(ConfFileError, match=r"by import_config\('main.py'\)"):
        load_config(write_conf("other.py", IMPORT + "load_config('main.py')\n"))
    with fresh_configs():
        load_config(path)


def test_import_from_code(write_conf):
    path = write_conf("main.py", IMPORT + "config('drive', speed=8)\n")
    assert import_config(path) is import_config(path)
    assert drive()[0] == 8


def test_overrides_win(write_conf):
    path = write_conf("main.py", IMPORT + "n = define_config('n', 1)\nconfig('drive', speed=n, gear=2)\n")
    parse_config(path, ["drive.gear=5", "n=7"])
    assert drive() == (7, 5, None)
    with fresh_configs():
        parse_config(path, {"drive.radio": ["a"]})
        assert drive() == (1, 2, ["a"])
    with fresh_configs():
        parse_config(path, "drive.gear=6")
        assert drive() == (1, 6, None)


def test_wrong_overrides_are_reported_and_undone(write_conf, nothing_configured):
    path = write_conf("main.py", IMPORT + "define_config('epochs', 1)\n")
    with pytest.raises(UnknownNameError) as error:
        parse_config(path, ["drive.gaer=5", "epoch=3"])
    first, second = str(error.value).splitlines()
    assert first.startswith("override 'drive.gaer=5': 'drive' has no parameter 'gaer'. Did you mean 'gear'?")
    assert second.startswith("override 'epoch=3': unknown name 'epoch'. Did you mean 'epochs'")
    with pytest.raises(OverrideSyntaxError):
        parse_config(path, ["drive.gear=1+1"])
    with pytest.raises(OverrideSyntaxError, match="given twice"):
        parse_config(path, ["drive.gear=1", "drive.gear=2"])
    with pytest.raises(GivenTwiceError):
        parse_config(path, ["drive.gear=1", "gear=2"])
    assert nothing_configured.settings == {}
    assert nothing_configured.pre_settings == []
    parse_config(path, ["drive.gear=5", "epochs=3"])
    assert (drive()[1], get_config_value("epochs")) == (5, 3)


def test_conf_gives_a_value_to_a_conf_it_imports_and_the_outside_still_wins(write_conf):
    write_conf("base.py", IMPORT + "config('drive', speed=define_config('pace', 1))\n")
    path = write_conf("main.py", IMPORT + "pre_config({'pace': 2, 'drive.gear': 2})\nimport_config('base.py')\n")
    with fresh_configs():
        load_config(path)
        assert drive() == (2, 2, None)
    with fresh_configs():
        parse_config(path, ["gear=3"])
        assert drive() == (2, 3, None)
    with fresh_configs():
        parse_config(path, ["drive.gear=3"])
        assert drive() == (2, 3, None)


def test_configurables_of_a_conf_belong_to_its_run(write_conf):
    text = IMPORT + "@configurable\ndef conf_made(x=1):\n    return x\n@configurable\nclass Made:\n    pass\n"
    first = write_conf("first.py", text + "config('conf_made', x=5)\n")
    second = write_conf("second.py", text)
    with fresh_configs():
        module = load_config(first)
        assert module.conf_made() == 5
        assert type(pickle.loads(pickle.dumps(module.Made()))) is module.Made
    with fresh_configs():
        module = load_config(second)
        config("conf_made", x=6)
        assert module.conf_made() == 6
    with pytest.raises(ConfigError, match="unknown configurable 'conf_made'"):
        config("conf_made", x=1)


def test_confs_of_the_same_name_are_different_modules(write_conf):
    write_conf("base/conf.py", IMPORT + "config('drive', gear=define_config('n', 3))\n")
    module = load_config(write_conf("conf.py", IMPORT + "base = import_config('base/conf.py')\n"))
    assert module.base.__name__ == "rein_conf.conf_2"
    assert drive()[1] == 3
    assert ("_CONFIG._USER.n", 3) in get_operative_configs()
