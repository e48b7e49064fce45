"""A configuration on disk, from which the run can be rebuilt.

A saved configuration is `conf/` (each conf file that was run, as it was read), `overrides.json`
(values from outside, and which file imports which), `values.json` (what the confs gave, as data) and
`operative.py` (what was used, for people).
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from rein.config.configs import ACTIVE, Configs
from rein.config.data_values import Encoder, NotDataError
from rein.config.errors import SavedConfigError
from rein.config.overrides import Reference, literal_text
from rein.config.plain_files import read_json, replace_file
from rein.config.render import operative_config_str

FORMAT = 1
INDEX = "overrides.json"
VALUES = "values.json"
CONFS = "conf"
_OPERATIVE = "operative.py"


def save_config(directory: str | os.PathLike[str]) -> None:
    """Writes the configuration in force into `directory`, which may hold other things, or the same configuration.

    A second call after more values were used only brings `operative.py` and `values.json` up to date. A directory that
    holds a different configuration is left untouched and is an error.

    Args:
        directory: made if it does not exist.
    """
    folder = Path(directory)
    relative = _layout(ACTIVE.configs)
    files = {f"{CONFS}/{relative[path]}": conf.text.encode() for path, conf in ACTIVE.configs.conf_files.items()}
    files[INDEX] = (json.dumps(_index(ACTIVE.configs, relative), indent=2) + "\n").encode()
    _check_same(folder, files)
    for name, content in files.items():
        if name != INDEX:
            replace_file(folder / name, content)
    replace_file(folder / _OPERATIVE, operative_config_str().encode())
    replace_file(folder / VALUES, (json.dumps(_values(ACTIVE.configs, relative), indent=1) + "\n").encode())
    if not (folder / INDEX).exists():
        replace_file(folder / INDEX, files[INDEX])


def values_not_saved(directory: str | os.PathLike[str]) -> dict[str, str]:
    """What `save_config` could not save there, because no name leads to it: names of settings and looks of their values."""
    folder = Path(directory)
    if not (folder / INDEX).exists():
        return {}
    content = read_json(folder / INDEX, folder)
    found = content.get("not_saved") if isinstance(content, dict) else None
    return {str(name): str(text) for name, text in found.items()} if isinstance(found, dict) else {}


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
    named = _by_name({name: given[name] for name, text in sorted(texts.items()) if text is None})
    lost = [name for name, text in sorted(texts.items()) if text is None and name not in named]
    imports = {
        relative[path]: {written: relative[target] for written, target in conf.imports.items()}
        for path, conf in configs.conf_files.items()
    }
    return {
        "format": FORMAT,
        "overrides": {name: text for name, text in sorted(texts.items()) if text is not None},
        "named": named,
        "not_saved": {name: repr(given[name]) for name in lost},
        "kinds": {name: _kind(given[name]) for name in lost},
        "main": [relative[path] for path in configs.main_files],
        "imports": imports,
    }


def _by_name(given: dict[str, Any]) -> dict[str, Any]:
    """Values that are no literals, as data that names what they are made of; without those for which there is none."""
    encoder, found = Encoder(), {}
    for name, value in given.items():
        with contextlib.suppress(NotDataError):
            found[name] = encoder.encode(value)
    return found


def _values(configs: Configs, relative: dict[str, str]) -> dict[str, Any]:
    """What was given by conf files, as data; a value that is code stands there as `{"$code": ...}`."""
    encoder = Encoder()

    def encode(value: Any) -> Any:
        try:
            return encoder.encode(value.resolve() if isinstance(value, Reference) else value)
        except NotDataError as error:
            return {"$code": str(error)}

    given = {name: one for name, one in sorted(configs.settings.items()) if one.source is not None}
    return {
        "format": FORMAT,
        "defined": {name: encode(default) for name, default in configs.user.defaults.items()},
        "settings": {
            name: {
                "value": encode(one.value),
                "conf": relative[str(one.source)],
                "line": one.place.line,
                "mutable": one.mutable,
                "outside": one.outside,
            }
            for name, one in given.items()
        },
    }


def _kind(value: Any) -> str:
    """What a value is that cannot be saved: unlike its `repr`, this stays the same while the value is used."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def _is_same(name: str, present: bytes, content: bytes) -> bool:
    """Whether a file holds what would be written there."""
    if name != INDEX or present == content:
        return present == content
    try:
        indices = [json.loads(one) for one in (present, content)]
        for index in indices:
            index["not_saved"] = sorted(index["not_saved"])
            for added_later in ("kinds", "named"):
                index.setdefault(added_later, indices[1][added_later])
        return bool(indices[0] == indices[1])
    except (ValueError, TypeError, KeyError):
        return False  # A damaged index is no configuration like this one: the caller says so.


def _check_same(folder: Path, files: dict[str, bytes]) -> None:
    confs = folder / CONFS
    present = {path for path in confs.rglob("[!.]*") if path.is_file()} if confs.is_dir() else set()
    strange = sorted(present - {folder / name for name in files})
    differing = [
        folder / name
        for name, content in files.items()
        if (folder / name).exists() and not _is_same(name, (folder / name).read_bytes(), content)
    ]
    if (folder / _OPERATIVE).exists() and not (folder / INDEX).exists():
        differing.append(folder / _OPERATIVE)
    if strange or differing:
        raise SavedConfigError(
            f"{folder} holds a different configuration ({[*differing, *strange][0]}); nothing was written. "
            "Choose another directory, or continue that run by load_saved_config"
        )
