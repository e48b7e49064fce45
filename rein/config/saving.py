"""A configuration on disk, from which the run can be rebuilt.

A saved configuration is `conf/` (each conf file that was run, as it was read), `overrides.json`
(values from outside, and which file imports which) and `operative.py` (what was used, for people).
"""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rein.config.api import pre_config, validate_pre_configs
from rein.config.conf_files import load_config
from rein.config.configs import ACTIVE, Configs
from rein.config.errors import OverrideSyntaxError, SavedConfigError
from rein.config.overrides import literal_text, parse_override
from rein.config.render import operative_config_str

_FORMAT = 1
_INDEX = "overrides.json"
_OPERATIVE = "operative.py"
_CONFS = "conf"


def save_config(directory: str | os.PathLike[str]) -> None:
    """Writes the configuration in force into `directory`, which may hold other things, or the same configuration.

    A second call after more values were used only brings `operative.py` up to date. A directory that holds a different
    configuration is left untouched and is an error.

    Args:
        directory: made if it does not exist.
    """
    folder = Path(directory)
    relative = _layout(ACTIVE.configs)
    files = {f"{_CONFS}/{relative[path]}": conf.text.encode() for path, conf in ACTIVE.configs.conf_files.items()}
    files[_INDEX] = (json.dumps(_index(ACTIVE.configs, relative), indent=2) + "\n").encode()
    _check_same(folder, files)
    for name, content in files.items():
        if name != _INDEX:
            _write(folder / name, content)
    _write(folder / _OPERATIVE, operative_config_str().encode())
    if not (folder / _INDEX).exists():
        _write(folder / _INDEX, files[_INDEX])


def load_saved_config(directory: str | os.PathLike[str], supply: Mapping[str, Any] | None = None) -> None:
    """Rebuilds the configuration that `save_config` wrote; if it fails, nothing has been configured.

    Only the saved copies of the conf files are run, wherever the originals are now.

    Args:
        directory: where `save_config` wrote to.
        supply: values that could not be saved because they are no literals, by the full names that the
            error without them lists. They, and any other value here, win over the saved ones.
    """
    folder = Path(directory)
    index = _read_index(folder)
    supplied = dict(supply or {})
    missing = [name for name in index["not_saved"] if name not in supplied]
    if missing:
        listed = "\n  ".join(f"{name} = {index['not_saved'][name]}" for name in missing)
        raise SavedConfigError(
            f"{folder}: these values were no literals and were given by code outside a conf, so that they could not be "
            f"saved. Pass them as load_saved_config(..., supply={{name: value}}):\n  {listed}"
        )
    configs = ACTIVE.configs
    before = configs.snapshot()
    try:
        for importer, imports in index["imports"].items():
            for written, target in imports.items():
                key = (_saved_path(folder, importer), written)
                configs.redirected_imports[key] = _saved_path(folder, target)
        pre_config(supplied)
        for name, text in index["overrides"].items():
            if name not in supplied:
                pre_config({name: _read_value(folder, name, text)}, place=f"{folder / _INDEX}")
        for main in index["main"]:
            load_config(_saved_path(folder, main))
        validate_pre_configs()
    except BaseException:
        configs.restore(before)
        raise


def _layout(configs: Configs) -> dict[str, str]:
    """Paths of the conf files relative to the deepest folder that holds all of them."""
    if not configs.conf_files:
        return {}
    root = os.path.commonpath([os.path.dirname(path) for path in configs.conf_files])
    return {path: Path(os.path.relpath(path, root)).as_posix() for path in configs.conf_files}


def _index(configs: Configs, relative: dict[str, str]) -> dict[str, Any]:
    """What cannot be had by running the conf files: values from outside and from code, and the layout."""
    given = {pre.name: pre.value for pre in configs.pre_settings if pre.source is None}
    for name, setting in configs.settings.items():
        if setting.source is None and not setting.outside:
            given[name] = setting.value
    texts = {name: literal_text(value) for name, value in given.items()}
    imports = {
        relative[path]: {written: relative[target] for written, target in conf.imports.items()}
        for path, conf in configs.conf_files.items()
    }
    return {
        "format": _FORMAT,
        "overrides": {name: text for name, text in sorted(texts.items()) if text is not None},
        "not_saved": {name: repr(given[name]) for name, text in sorted(texts.items()) if text is None},
        "kinds": {name: _kind(given[name]) for name, text in sorted(texts.items()) if text is None},
        "main": [relative[path] for path in configs.main_files],
        "imports": imports,
    }


def _kind(value: Any) -> str:
    """What a value is that cannot be saved: unlike its `repr`, this stays the same while the value is used."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def _is_same(name: str, present: bytes, content: bytes) -> bool:
    """Whether a file holds what would be written there."""
    if name != _INDEX or present == content:
        return present == content
    try:
        indices = [json.loads(one) for one in (present, content)]
        for index in indices:
            index["not_saved"] = sorted(index["not_saved"])
            index.setdefault("kinds", indices[1]["kinds"])
        return bool(indices[0] == indices[1])
    except (ValueError, TypeError, KeyError):
        return False  # A damaged index is no configuration like this one: the caller says so.


def _check_same(folder: Path, files: dict[str, bytes]) -> None:
    confs = folder / _CONFS
    present = {path for path in confs.rglob("[!.]*") if path.is_file()} if confs.is_dir() else set()
    strange = sorted(present - {folder / name for name in files})
    differing = [
        folder / name
        for name, content in files.items()
        if (folder / name).exists() and not _is_same(name, (folder / name).read_bytes(), content)
    ]
    if (folder / _OPERATIVE).exists() and not (folder / _INDEX).exists():
        differing.append(folder / _OPERATIVE)
    if strange or differing:
        raise SavedConfigError(
            f"{folder} holds a different configuration ({[*differing, *strange][0]}); nothing was written. "
            "Choose another directory, or continue that run by load_saved_config"
        )


def _write(path: Path, content: bytes) -> None:
    """Replaces the file in one step, so that a crash leaves the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / _INDEX
    if not path.is_file():
        raise SavedConfigError(f"{folder} holds no saved configuration: there is no {_INDEX}")
    try:
        index = json.loads(path.read_bytes())
    except ValueError as error:
        raise SavedConfigError(f"{path} is damaged: {error}") from error
    if not isinstance(index, dict) or index.get("format") != _FORMAT:
        raise SavedConfigError(f"{path} is not in format {_FORMAT}, which this version reads")
    kinds = {"overrides": dict, "not_saved": dict, "main": list, "imports": dict}
    for key, kind in kinds.items():
        if not isinstance(index.get(key), kind):
            raise SavedConfigError(f"{path} is damaged: '{key}' is no {kind.__name__}")
    if not all(isinstance(imports, dict) for imports in index["imports"].values()):
        raise SavedConfigError(f"{path} is damaged: 'imports' holds something else than dicts")
    return index


def _saved_path(folder: Path, name: Any) -> str:
    root = os.path.realpath(folder / _CONFS)
    path = os.path.realpath(os.path.join(root, str(name)))
    if os.path.commonpath([root, path]) != root or not os.path.isfile(path):
        raise SavedConfigError(f"{folder / _INDEX} is damaged: {_CONFS}/ holds no file {name!r}")
    return path


def _read_value(folder: Path, name: str, text: Any) -> Any:
    try:
        return parse_override(f"{name}={text}")[1]
    except OverrideSyntaxError as error:
        raise SavedConfigError(f"{folder / _INDEX} is damaged: {error}") from error
