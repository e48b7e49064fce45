"""What must hold of the content of a data set, checked piece by piece so that it may be larger than memory."""

import hashlib

import numpy as np

from rein import nest
from rein.data_structures import StepType
from rein.replay.datasets.manifest import EPISODE_BEGIN, EPISODE_SOURCE, DataSetError, Manifest, column_specs
from rein.specs import BoundedTensorSpec

_PIECE_BYTES = 16 << 20


def verify_columns(path: str, manifest: Manifest, columns: dict[str, np.ndarray]) -> None:
    """Raises `DataSetError` if a column was altered, is not finite, or does not make episodes.

    Args:
        path: of the file, for messages.
        manifest: of the data set.
        columns: by name.
    """
    begins = np.array(columns[EPISODE_BEGIN])
    _check_begins(path, manifest, begins, columns)
    for name, rows in columns.items():
        _check_column(path, name, rows, manifest, begins)
    _check_steps(path, manifest, begins, columns)


def _check_begins(path: str, manifest: Manifest, begins: np.ndarray, columns: dict[str, np.ndarray]) -> None:
    lengths = np.diff(begins, append=manifest.steps)
    if begins[0] != 0 or lengths.min() < 2:
        raise DataSetError(f"{path} was altered: episodes do not follow each other in {EPISODE_BEGIN}")
    sources = columns[EPISODE_SOURCE]
    if sources.min() < 0 or sources.max() >= len(manifest.sources):
        raise DataSetError(f"{path} was altered: {EPISODE_SOURCE} names sources that it does not have")


def _check_column(path: str, name: str, rows: np.ndarray, manifest: Manifest, begins: np.ndarray) -> None:
    """Finite numbers, then the checksum, in one pass."""
    spec = column_specs(manifest.specs).get(name)
    digest = hashlib.sha256()
    piece = max(1, _PIECE_BYTES // max(1, rows.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))))
    for begin in range(0, len(rows), piece):
        part = rows[begin : begin + piece]
        if rows.dtype.kind == "f" and not np.isfinite(part).all():
            index = int(np.argwhere(~np.isfinite(part))[0][0])
            value = part[index][~np.isfinite(part[index])].flat[0] if part.ndim > 1 else part[index]
            raise DataSetError(f"{path}: {_place(name, begin + index, begins)}: it is {value}")
        is_action = name == "action" or name.startswith("action.")
        if is_action and isinstance(spec, BoundedTensorSpec) and spec.is_discrete:
            _check_choices(path, name, part, begin, spec, begins)
        digest.update(part.reshape(-1).view(np.uint8).data)
    if digest.hexdigest() != manifest.checksums[name]:
        raise DataSetError(f"{path} was altered: column {name} does not match its checksum")


def _check_choices(
    path: str, name: str, part: np.ndarray, begin: int, spec: BoundedTensorSpec, begins: np.ndarray
) -> None:
    """Discrete actions within their bounds, or the zeros that stand where there is no action."""
    bad = ((part < spec.minimum) | (part > spec.maximum)) & (part != 0)
    if bad.any():
        index = int(np.argwhere(bad)[0][0])
        raise DataSetError(f"{path}: {_place(name, begin + index, begins)}: {part[index]} is not possible, see {spec}")


def _check_steps(path: str, manifest: Manifest, begins: np.ndarray, columns: dict[str, np.ndarray]) -> None:
    kinds, discounts = columns["step_type"], columns["discount"]
    ends = np.append(begins[1:], manifest.steps) - 1
    wrong = (kinds[begins] != StepType.FIRST) | (kinds[ends] != StepType.LAST)
    if wrong.any():
        raise DataSetError(f"{path}: step_type of episode {int(np.argmax(wrong))} does not go from FIRST to LAST")
    if int((kinds == StepType.MID).sum()) != manifest.steps - 2 * manifest.episodes:
        raise DataSetError(f"{path}: step_type has FIRST or LAST steps in the middle of episodes")
    if discounts.min() < 0 or discounts.max() > 1:
        raise DataSetError(f"{path}: discount is between {discounts.min()} and {discounts.max()}, not 0 and 1")
    for name, _ in nest.flatten_with_paths(manifest.specs.action):
        rows = columns[f"action.{name}" if name else "action"]
        if np.any(rows[begins]) or np.any(rows[-1]):
            raise DataSetError(f"{path}: action is not zero in front of every episode and at the end")


def _place(name: str, row: int, begins: np.ndarray) -> str:
    """Which field of which episode stands in a row of a column."""
    # Row i + 1 of actions is the action taken at step i.
    step = max(0, row - 1) if name == "action" or name.startswith("action.") else row
    episode = int(np.searchsorted(begins, step, side="right")) - 1
    return f"{name} of episode {episode} at its step {step - int(begins[episode])}"
