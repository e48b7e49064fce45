"""Saved models: one zip file of JSON and tensors. Loading one runs no code from it."""

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple

from rein.config.plain_files import read_json
from rein.replay.datasets.spec_text import spec_from_json, spec_to_json
from rein.runtime.checkpoint import Checkpointer
from rein.specs import space_from_spec, spec_from_space
from rein.version import __version__

_FACTS = "model.json"
_TENSORS = "tensors"
_MOST_BYTES = 64 * 2**30
Target = str | os.PathLike[str] | IO[bytes]


class Content(NamedTuple):
    """What a file holds."""

    facts: dict[str, Any]
    state: dict[str, Any]


def zip_path(path: Target) -> Any:
    """The path with `.zip` behind it unless it has an ending; open files stay as they are."""
    if not isinstance(path, str | os.PathLike):
        return path
    found = Path(path)
    return found if found.suffix else found.with_name(f"{found.name}.zip")


def write(path: Target, facts: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Writes a file.

    Args:
        path: of the file, or an open one.
        facts: what JSON can hold.
        state: nest of tensors and plain values.
    """
    if isinstance(path, str | os.PathLike):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="rein-sb3-") as folder:
        Path(folder, _FACTS).write_text(json.dumps({"format": 1, "rein": __version__, **facts}, indent=1))
        Checkpointer(Path(folder) / _TENSORS).save(0, {"state": dict(state)})
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
            for one in sorted(Path(folder).rglob("*")):
                if one.is_file():
                    file.write(one, one.relative_to(folder).as_posix())


def read(path: Target) -> Content:
    """Reads a file that `write` wrote.

    Raises:
        ValueError: it is none.
    """
    name = str(path) if isinstance(path, str | os.PathLike) else "the file"
    if isinstance(path, str | os.PathLike) and not Path(path).exists():
        raise FileNotFoundError(f"{name} does not exist")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{name} is no saved model: give what model.save wrote")
    with TemporaryDirectory(prefix="rein-sb3-") as folder, zipfile.ZipFile(path) as file:
        _check(name, file)
        file.extractall(folder)
        facts = read_json(Path(folder, _FACTS), folder)
        if not isinstance(facts, dict) or facts.get("format") != 1:
            raise ValueError(f"{name} is no saved model of this version: give what model.save wrote")
        return Content(facts, Checkpointer(Path(folder) / _TENSORS).load().components["state"])


def _check(name: str, file: zipfile.ZipFile) -> None:
    entries = file.infolist()
    if _FACTS not in {one.filename for one in entries}:
        raise ValueError(
            f"{name} was not saved here, and files of Stable-Baselines3 hold code that is run when they are loaded: load it "
            "there, and carry the weights over with get_parameters and set_parameters"
        )
    for one in entries:
        parts = PurePosixPath(one.filename).parts
        if one.filename.startswith("/") or ".." in parts or "\\" in one.filename or one.is_dir():
            raise ValueError(f"{name} is damaged: it holds {one.filename!r}")
    if sum(one.file_size for one in entries) > _MOST_BYTES:
        raise ValueError(f"{name} is damaged: it would fill more than {_MOST_BYTES} bytes")


def space_to_json(space: Any) -> Any:
    """A Gymnasium space as JSON."""
    return spec_to_json(spec_from_space(space))


def space_from_json(content: Any) -> Any:
    """What `space_to_json` gave, as a space; floats in the precision that training uses."""
    return space_from_spec(spec_from_json(content))
