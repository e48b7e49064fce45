"""Parts of a checkpoint by ``prefix@path``, as the `checkpoint` argument of algorithms gives it."""

import difflib
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rein.runtime.checkpoint.archive import Checkpoint, read_archive
from rein.runtime.checkpoint.checkpointer import Checkpointer
from rein.runtime.checkpoint.errors import CheckpointNotFoundError
from rein.runtime.checkpoint.manifest import MANIFEST

DEFAULT_PREFIX = "alg"
RUN_SUBDIRECTORIES = ("checkpoints", "train/checkpoints", "train/algorithm")
"""Where the checkpoints of a run are looked for below its directory."""


def load_partial(location: str) -> dict[str, Any]:
    """The state below a prefix of a saved checkpoint, with that prefix taken off its keys.

    Args:
        location: "prefix@path" or "path". The prefix is a component and a dotted path into it, such
            as "alg._sub_alg1"; without one it is "alg". The path is a checkpoint, a directory of
            checkpoints, or a run directory; of several checkpoints the newest intact one is read.

    Raises:
        ValueError: nothing, or only a single value, is stored under the prefix.
        CheckpointError: the checkpoint cannot be found, read or verified.
    """
    prefix, path = split_location(location)
    component, _, below = prefix.partition(".")
    checkpoint = _load(path, component)
    found = _below(checkpoint.components[component], below)
    if found is None:
        raise ValueError(_unknown(prefix, checkpoint))
    if not isinstance(found, dict):
        raise ValueError(
            f"{prefix!r} in {checkpoint.path} is a single {type(found).__name__}, not a state dict; "
            f"load {prefix.rpartition('.')[0]!r}"
        )
    return found


def split_location(location: str) -> tuple[str, Path]:
    """The prefix and the path of "prefix@path"; "alg" where the prefix is left out."""
    prefix, at, path = location.partition("@")
    if not at or "/" in prefix or os.sep in prefix:
        prefix, path = "", location
    if not path or any(not part for part in prefix.split(".")[1:]):
        raise ValueError(f"{location!r} is not 'prefix@path' or 'path', such as 'alg._sub_alg1@runs/a/ckpt-100'")
    return prefix or DEFAULT_PREFIX, Path(path).expanduser()


def _load(path: Path, component: str) -> Checkpoint:
    if not os.path.lexists(path):
        raise CheckpointNotFoundError(f"{path} does not exist; name a checkpoint or a run directory")
    # A path that a person gave may be a symbolic link; what lies inside a checkpoint may not.
    resolved = path.resolve()
    candidates = [resolved, *(resolved / name for name in RUN_SUBDIRECTORIES)]
    if not resolved.is_dir() or os.path.lexists(resolved / MANIFEST):
        return read_archive(resolved, [component])
    for candidate in candidates:
        checkpointer = Checkpointer(candidate)
        if checkpointer.steps():
            return checkpointer.load(components=[component])
    if resolved.name.startswith("ckpt-"):
        return read_archive(resolved, [component])
    raise CheckpointNotFoundError(f"there is no checkpoint in {path} nor in its {', '.join(RUN_SUBDIRECTORIES)}")


def _below(state: Any, prefix: str) -> Any:
    """What lies under the dotted `prefix`, in nested dicts or behind dotted keys; None if nothing."""
    if not prefix:
        return state if isinstance(state, dict) else _as_dict(state)
    children = _children(state)
    inside = {k[len(prefix) + 1 :]: v for k, v in children.items() if k.startswith(prefix + ".")}
    if prefix in children:
        value = _as_dict(children[prefix])
        if not inside or not isinstance(value, dict):
            return value
        return {**value, **inside}
    if inside:
        return _with_metadata(inside, state, prefix)
    for key, value in children.items():
        if prefix.startswith(key + "."):
            found = _below(value, prefix[len(key) + 1 :])
            if found is not None:
                return found
    return None


def _as_dict(value: Any) -> Any:
    return _children(value) if isinstance(value, list | tuple) else value


def _children(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, list | tuple):
        return {str(index): item for index, item in enumerate(value)}
    return {}


def _with_metadata(inside: dict[str, Any], state: Any, prefix: str) -> dict[str, Any]:
    """`inside` with the versions of its modules, if nn.Module.state_dict() gave some with `state`."""
    metadata = getattr(state, "_metadata", None)
    if not isinstance(metadata, dict):
        return inside
    ordered = OrderedDict(inside)
    ordered._metadata = OrderedDict(  # type: ignore[attr-defined]
        (key[len(prefix) + 1 :], value)
        for key, value in metadata.items()
        if isinstance(key, str) and (key + ".").startswith(prefix + ".")
    )
    return ordered


def _unknown(prefix: str, checkpoint: Checkpoint) -> str:
    ((component, state),) = checkpoint.components.items()
    names = sorted(set(_prefixes(state, component)))
    near = difflib.get_close_matches(prefix, names, n=5, cutoff=0.5)
    top = [name for name in names if name.count(".") == 1]
    hint = f"near names: {near}" if near else f"it has {top[:20]}"
    return f"{checkpoint.path} has nothing under {prefix!r}; {hint}"


def _prefixes(state: Any, above: str) -> Iterator[str]:
    for key, value in _children(state).items():
        *modules, _ = parts = key.split(".")
        last = len(parts) if _children(value) else len(modules)
        for length in range(1, last + 1):
            yield ".".join([above, *parts[:length]])
        yield from _prefixes(value, f"{above}.{key}")
