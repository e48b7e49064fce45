"""A configuration from disk: rebuilt from data, or by the confs that were saved if their author is trusted."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from rein.config.api import pre_config, validate_pre_configs
from rein.config.conf_files import load_config
from rein.config.configs import ACTIVE, Configs
from rein.config.data_values import Decoder, NotDataError, check_data, check_object
from rein.config.errors import (
    ConfigError,
    MissingValuesError,
    OverrideSyntaxError,
    Place,
    SavedConfigError,
    UntrustedCodeError,
)
from rein.config.names import CONF_MODULES
from rein.config.overrides import Reference, parse_override
from rein.config.plain_files import PlainFileError, read_json, read_plain
from rein.config.saving import CONFS, FORMAT, INDEX, VALUES
from rein.config.settings import ConfFile, Setting

_ZOO = Path(__file__).parents[1] / "zoo"


def load_saved_config(
    directory: str | os.PathLike[str],
    supply: Mapping[str, Any] | None = None,
    trust: bool = False,
    optional: Collection[str] = (),
) -> None:
    """Rebuilds the configuration that `save_config` wrote; if it fails, nothing has been configured.

    Nothing that lies in the directory is run: confs of Rein's zoo are recognized and Rein's own run, the values that
    other confs gave are read as data. What is left needs trust: the saved copies of the confs are run then, wherever the
    originals are now.

    Args:
        directory: where `save_config` wrote to.
        supply: values that could not be saved because they are no literals, by the full names that the
            error without them lists, or an end of them. They, and any other value here, win over the saved ones.
        trust: run the code that was saved with the configuration, and import the modules that it names. Only for runs whose
            author you trust.
        optional: settings whose values are left at their defaults if they could not be saved, or would need trust.

    Raises:
        UntrustedCodeError: it cannot be rebuilt without running or importing code; the message says which.
    """
    folder = Path(directory)
    index = _read_index(folder)
    saved_names = [*index["not_saved"], *index.get("named", {}), *index["overrides"]]
    supplied = _Supply(supply or {}, saved_names)
    missing = [name for name in index["not_saved"] if name not in supplied and not _is_one_of(name, optional)]
    if missing:
        raise MissingValuesError(folder, {name: index["not_saved"][name] for name in missing})
    configs = ACTIVE.configs
    before = configs.snapshot()
    problems = _Problems(folder)
    try:
        pre_config(supplied.values)
        decoder = Decoder(trust)
        for name, data in index.get("named", {}).items():
            # Objects that several values share stay one only if all are decoded.
            value = problems.catch(
                name, partial(decoder.decode, data), quiet=_is_one_of(name, optional) or name in supplied
            )
            if name not in supplied and value is not None:
                pre_config({name: value}, place=f"{folder / INDEX}")
        for name, text in index["overrides"].items():
            if name not in supplied:
                value = _read_value(folder, name, text)
                if not trust:
                    problems.catch(name, partial(_check_override, value))
                    if problems.found:
                        continue
                pre_config({name: value}, place=f"{folder / INDEX}")
        problems.raise_if_any()
        _configure(folder, index, configs, problems, trust, supplied)
        validate_pre_configs()
    except BaseException:
        configs.restore(before)
        raise


class _Supply:
    """Values that the caller gives, found also by an end of their names; under the names that were saved."""

    def __init__(self, values: Mapping[str, Any], saved_names: Sequence[str]) -> None:
        self.values: dict[str, Any] = {}
        for name, value in values.items():
            meant = [one for one in saved_names if _is_one_of(one, [name])]
            self.values[meant[0] if len(meant) == 1 else name] = value

    def __contains__(self, name: str) -> bool:
        return _is_one_of(name, self.values)


def _is_one_of(name: str, others: Collection[str]) -> bool:
    """Whether a name is among others, one of which may be the end of the other."""
    return any(f".{name}".endswith(f".{one}") or f".{one}".endswith(f".{name}") for one in others)


def _configure(
    folder: Path, index: dict[str, Any], configs: Configs, problems: "_Problems", trust: bool, supplied: _Supply
) -> None:
    """Gives what the confs gave."""
    saved = {_saved_path(folder, name): str(name) for name in (*index["main"], *_imported(index))}
    shipped = _shipped(folder, index, saved)
    if shipped is not None:
        for main in index["main"]:
            load_config(shipped / main)
    elif trust:
        for importer, imports in index["imports"].items():
            for written, target in imports.items():
                key = (_saved_path(folder, importer), written)
                configs.redirected_imports[key] = _saved_path(folder, target)
        for main in index["main"]:
            load_config(_saved_path(folder, main))
    elif saved:
        _give_values(folder, index, configs, saved, problems, supplied)


def _imported(index: dict[str, Any]) -> list[str]:
    return [*index["imports"], *(target for imports in index["imports"].values() for target in imports.values())]


def _shipped(folder: Path, index: dict[str, Any], saved: dict[str, str]) -> Path | None:
    """The folder of Rein's zoo that holds exactly the saved confs; None if there is none."""
    if not index["main"]:
        return None
    main = Path(index["main"][0])
    for candidate in sorted(_ZOO.rglob(main.name)):
        root = Path(str(candidate).removesuffix(str(main)))
        if root / main != candidate or not root.resolve().is_relative_to(_ZOO):
            continue
        if all(_same_content(folder, path, root / name) for path, name in saved.items()):
            return root
    return None


def _same_content(folder: Path, saved: str, shipped: Path) -> bool:
    if not shipped.resolve().is_relative_to(_ZOO) or not shipped.is_file():
        return False
    return _read(lambda: read_plain(saved, folder)) == shipped.read_bytes()


# From data.


def _give_values(
    folder: Path,
    index: dict[str, Any],
    configs: Configs,
    saved: dict[str, str],
    problems: "_Problems",
    supplied: _Supply,
) -> None:
    """Gives the values that `values.json` holds, as if the confs had been run."""
    paths = {name: path for path, name in saved.items()}
    if not (folder / VALUES).exists():
        problems.confs(sorted(paths))
        problems.raise_if_any()
    values = _read(lambda: read_json(folder / VALUES, folder))
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise SavedConfigError(f"{folder / VALUES} is not in format {FORMAT}, which this version reads")
    decoder = Decoder()
    try:
        for name, data in values["defined"].items():
            configs.user.defaults[str(name)] = problems.catch(name, partial(decoder.decode, data), quiet=True)
        for name, entry in values["settings"].items():
            _give(configs, str(name), entry, paths, decoder, problems, quiet=str(name) in supplied)
    except (KeyError, TypeError, AttributeError) as error:
        raise SavedConfigError(f"{folder / VALUES} is damaged: {error!r}") from error
    problems.raise_if_any()
    for name, path in paths.items():
        text = _read(partial(read_plain, path, folder)).decode(errors="replace")
        imports = {str(written): paths[target] for written, target in index["imports"].get(name, {}).items()}
        configs.conf_files[path] = ConfFile(path, text, ModuleType("not_run"), imports)
    configs.main_files.extend(paths[str(name)] for name in index["main"])
    configs.plans = {}


def _give(
    configs: Configs,
    name: str,
    entry: Mapping[str, Any],
    paths: Mapping[str, str],
    decoder: Decoder,
    problems: "_Problems",
    quiet: bool,
) -> None:
    try:
        owner, parameter = configs.locate(name)
    except ConfigError:
        module = name.rpartition(".")[0]
        is_conf = module.startswith(CONF_MODULES)
        problems.add(name, NotDataError(f"a setting of {module}", None if is_conf else module))
        return
    full_name = owner.full_name(parameter)
    existing = configs.settings.get(full_name)
    # Objects that several values share stay one only if all are decoded.
    value = problems.catch(name, lambda: decoder.decode(entry["value"]), quiet)
    if existing is None or not existing.outside:
        source = paths[str(entry["conf"])]
        place = Place(source, int(entry["line"]))
        configs.settings[full_name] = Setting(value, place, source, bool(entry["mutable"]), bool(entry["outside"]))


class _Problems:
    """What would have to be run or imported."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.found: list[str] = []

    def catch(self, name: str, compute: Callable[[], Any], quiet: bool = False) -> Any:
        """What `compute` gives; None if that would need code, which is noted unless `quiet`."""
        try:
            return compute()
        except NotDataError as error:
            if not quiet:
                self.add(name, error)
        except ValueError as error:
            if isinstance(error, ConfigError):
                raise
            raise SavedConfigError(f"{self._folder} is damaged: {name}: {error}") from error
        return None

    def add(self, name: str, error: NotDataError) -> None:
        """Notes that a value is code."""
        what = f"would import the module {error.module}" if error.module else "is code that a conf defines"
        self.found.append(f"{name}: {error} {what}")

    def confs(self, names: list[str]) -> None:
        """Notes that confs would have to be run."""
        self.found += [f"{self._folder / CONFS / name} would be run: there is no {VALUES} beside it" for name in names]

    def raise_if_any(self) -> None:
        """Raises `UntrustedCodeError` that lists everything."""
        if self.found:
            listed = "\n  ".join(self.found[:20])
            raise UntrustedCodeError(
                f"{self._folder}: this run cannot be rebuilt from data alone:\n  {listed}\nIf you trust whoever made it, "
                "allow that with --trust (in Python: trust=True); modules of your own may also be imported before, and in "
                "Python values be given by supply={name: value}"
            )


def _check_override(value: Any) -> None:
    if isinstance(value, Reference):
        check_object(value.resolve())
    else:
        check_data(value)


# Reading.


def _read(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except (PlainFileError, OSError) as error:
        raise SavedConfigError(str(error)) from error


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    if not path.exists():
        raise SavedConfigError(f"{folder} holds no saved configuration: there is no {INDEX}")
    index = _read(lambda: read_json(path, folder))
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise SavedConfigError(f"{path} is not in format {FORMAT}, which this version reads")
    kinds = {"overrides": dict, "not_saved": dict, "main": list, "imports": dict}
    for key, kind in kinds.items():
        if not isinstance(index.get(key), kind):
            raise SavedConfigError(f"{path} is damaged: '{key}' is no {kind.__name__}")
    if not isinstance(index.get("named", {}), dict):
        raise SavedConfigError(f"{path} is damaged: 'named' is no dict")
    if not all(isinstance(imports, dict) for imports in index["imports"].values()):
        raise SavedConfigError(f"{path} is damaged: 'imports' holds something else than dicts")
    return index


def _saved_path(folder: Path, name: Any) -> str:
    root = os.path.realpath(folder / CONFS)
    path = os.path.realpath(os.path.join(root, str(name)))
    if os.path.commonpath([root, path]) != root or not os.path.isfile(path):
        raise SavedConfigError(f"{folder / INDEX} is damaged: {CONFS}/ holds no file {name!r}")
    return path


def _read_value(folder: Path, name: str, text: Any) -> Any:
    try:
        return parse_override(f"{name}={text}")[1]
    except OverrideSyntaxError as error:
        raise SavedConfigError(f"{folder / INDEX} is damaged: {error}") from error
