"""Conf files: plain Python that calls `config` and its companions."""

import difflib
import linecache
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from rein.config.api import pre_config, validate_pre_configs
from rein.config.configs import ACTIVE, Configs
from rein.config.errors import ConfFileError, ConfigError, Place, caller_place
from rein.config.names import CONF_MODULES
from rein.config.overrides import parse_override, parse_overrides
from rein.config.settings import ConfFile

_ZOO = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "zoo")


def load_config(path: str | os.PathLike[str]) -> ModuleType:
    """The module that results from running a conf file; if it fails, nothing has been configured.

    Args:
        path: a Python file, relative to the working directory.
    """
    configs = ACTIVE.configs
    if configs.loading:
        raise ConfFileError(f"{caller_place()}: a conf runs another one by import_config({str(path)!r})")
    real = _find(os.fspath(path), os.getcwd())
    if real in configs.conf_files:
        raise ConfFileError(
            f"{caller_place()}: {path} was already loaded. Call reset_configs() first, or load it inside "
            "`with fresh_configs():`"
        )
    before = configs.snapshot()
    try:
        configs.main_files.append(real)
        return _run(configs, real)
    except BaseException:
        configs.restore(before)
        raise


def parse_config(path: str | os.PathLike[str], overrides: Iterable[str] | Mapping[str, Any] = ()) -> ModuleType:
    """The module of a conf file that was run with values from outside, all of which have been found to mean something.

    Args:
        path: a Python file, relative to the working directory.
        overrides: `name=value` texts, see `parse_override`, or values by name. They win over the conf.
    """
    configs = ACTIVE.configs
    before = configs.snapshot()
    try:
        if isinstance(overrides, Mapping):
            pre_config(overrides)
        else:
            texts = [overrides] if isinstance(overrides, str) else list(overrides)
            parse_overrides(texts)
            for text in texts:
                name, value = parse_override(text)
                pre_config({name: value}, place=f"override '{text}'")
        module = load_config(path)
        validate_pre_configs()
    except BaseException:
        configs.restore(before)
        raise
    return module


def import_config(path: str | os.PathLike[str]) -> ModuleType:
    """The module of another conf file, which is run unless it was before; its globals are the module's attributes.

    Args:
        path: a Python file, relative to the conf that imports it, or to the zoo of Rein: `"bases/ppo.py"`.
    """
    configs, written = ACTIVE.configs, os.fspath(path)
    importer = configs.loading[-1] if configs.loading else None
    real = configs.redirected_imports.get((importer or "", written))
    if real is None:
        real = _find(written, os.path.dirname(importer) if importer else os.getcwd())
    if real in configs.loading:
        chain = " -> ".join([*configs.loading[configs.loading.index(real) :], real])
        raise ConfFileError(f"{caller_place()}: confs import each other in a circle: {chain}")
    if importer is not None:
        configs.conf_files[importer].imports[written] = real
    elif real not in configs.conf_files:
        return load_config(real)
    known = configs.conf_files.get(real)
    return known.module if known is not None else _run(configs, real)


def _find(path: str, base: str) -> str:
    real = os.path.realpath(os.path.join(base, os.path.expanduser(path)))
    for place in (real, os.path.join(_ZOO, path)):
        if os.path.isfile(place):
            return place
    folder, name = os.path.split(real)
    message = f"{caller_place()}: there is no conf file {path!r} (looked for {real}, and in the zoo of Rein)."
    if os.path.isdir(folder):
        near = difflib.get_close_matches(name, sorted(os.listdir(folder)), n=3)
        message += f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise ConfFileError(message)


def _run(configs: Configs, path: str) -> ModuleType:
    text, code = _compile(path)
    module = ModuleType(_module_name(configs, path))
    module.__file__ = path
    configs.conf_files[path] = ConfFile(path, text, module)
    configs.loading.append(path)
    package = CONF_MODULES.rstrip(".")
    if package not in sys.modules:  # Pickle imports it to find classes that a conf defines.
        sys.modules[package] = ModuleType(package)
    replaced = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        exec(code, module.__dict__)
    except BaseException as error:
        if replaced is None:
            del sys.modules[module.__name__]
        else:
            sys.modules[module.__name__] = replaced
        if not isinstance(error, ConfigError):
            error.add_note(_where(error, path))
        raise
    finally:
        configs.loading.pop()
    return module


def _where(error: BaseException, path: str) -> str:
    """The line of a conf that led to an error, with its text."""
    trace, line = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"at {Place(path, line)}: {linecache.getline(path, line).strip()}"


def _compile(path: str) -> tuple[str, CodeType]:
    try:
        text = Path(path).read_bytes().decode("utf-8")
        return text, compile(text, path, "exec", dont_inherit=True)
    except OSError as error:
        raise ConfFileError(f"cannot read the conf {path}: {error.strerror}") from error
    except SyntaxError as error:
        source = (error.text or "").strip()
        raise ConfFileError(f"{path}:{error.lineno}: not valid Python: {error.msg}: {source}") from error
    except ValueError as error:
        raise ConfFileError(f"{path}: not a Python text in UTF-8: {error}") from error


def _module_name(configs: Configs, path: str) -> str:
    """A name that depends on the file's name only, so that a copy elsewhere defines the same full names."""
    stem = re.sub(r"\W", "_", Path(path).stem)
    taken = {file.module.__name__ for file in configs.conf_files.values()}
    name, number = CONF_MODULES + stem, 1
    while name in taken:
        number += 1
        name = f"{CONF_MODULES}{stem}_{number}"
    return name
