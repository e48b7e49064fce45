"""What is in the file of a data set, and how it says so.

The file is a safetensors file. For N steps in E episodes its tensors, here called columns, are

    step_type       [N] int32      FIRST, MID ... MID, LAST in every episode
    reward          [N(, D)]       earned by the action that led to the step; 0 at FIRST
    discount        [N] float32    0 where the episode terminated, else 1 (at a time limit too)
    observation.*   [N, ...]       one column for each tensor of the observation
    action.*        [N + 1, ...]   row i is the action that led to step i, zero at FIRST and in the last row,
                                   so that row i + 1 is the action taken at step i
    episode.begin   [E] int64      where each episode begins
    episode.source  [E] int64      which source it comes from

The metadata of its header hold "format", "version", "manifest" (JSON text) and "sha256" of that text. The manifest has
the specs, the numbers of steps and episodes, the sources (plain facts about how episodes were made, one object each),
and the SHA-256 of the bytes of every column.
"""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import torch

from rein import nest
from rein.nest import Nest
from rein.replay.datasets.spec_text import spec_from_json, spec_to_json
from rein.runtime.checkpoint import strict_json
from rein.runtime.checkpoint.errors import CheckpointError
from rein.specs import TensorSpec

FORMAT = "rein-dataset"
VERSION = 1
EPISODE_BEGIN, EPISODE_SOURCE = "episode.begin", "episode.source"


class DataSetError(ValueError):
    """A data set cannot be used; the message names the file and what is wrong with it, in one line."""


class Specs(NamedTuple):
    """What steps of a data set look like."""

    observation: Nest
    action: Nest
    reward: TensorSpec = TensorSpec(())


class Manifest(NamedTuple):
    """What a data set says about itself."""

    specs: Specs
    steps: int
    episodes: int
    sources: tuple[dict[str, Any], ...]
    checksums: dict[str, str]
    """SHA-256 of each column, in hexadecimal."""


def column_specs(specs: Specs) -> dict[str, TensorSpec]:
    """The columns of steps, by name, with the spec of one row."""
    columns = {
        "step_type": TensorSpec((), torch.int32),
        "reward": specs.reward,
        "discount": TensorSpec(()),
    }
    for kind, part in (("observation", specs.observation), ("action", specs.action)):
        for path, spec in nest.flatten_with_paths(part):
            columns[f"{kind}.{path}" if path else kind] = spec
    return columns


def num_rows(column: str, manifest_steps: int, manifest_episodes: int) -> int:
    """The number of rows of a column."""
    if column in (EPISODE_BEGIN, EPISODE_SOURCE):
        return manifest_episodes
    return manifest_steps + (column == "action" or column.startswith("action."))


def to_metadata(manifest: Manifest) -> dict[str, str]:
    """The texts that stand in the header of the file."""
    text = strict_json.dump(
        {
            "observation_spec": spec_to_json(manifest.specs.observation),
            "action_spec": spec_to_json(manifest.specs.action),
            "reward_spec": spec_to_json(manifest.specs.reward),
            "steps": manifest.steps,
            "episodes": manifest.episodes,
            "sources": list(manifest.sources),
            "checksums": manifest.checksums,
        }
    ).decode()
    return {"format": FORMAT, "version": str(VERSION), "manifest": text, "sha256": _digest(text)}


def from_metadata(metadata: dict[str, str], path: Path) -> Manifest:
    """The manifest in the header of a file.

    Raises:
        DataSetError: it is not that of a data set, or altered, or of a newer version.
    """
    if metadata.get("format") != FORMAT:
        raise DataSetError(f"{path} is a safetensors file, but not a data set: record one with `rein record`")
    if metadata.get("version") != str(VERSION):
        raise DataSetError(f"{path} has version {metadata.get('version')!r}; this Rein reads version {VERSION}")
    text = metadata.get("manifest", "")
    if _digest(text) != metadata.get("sha256"):
        raise DataSetError(f"{path} was altered: its manifest does not match its own hash")
    try:
        body = strict_json.load(text.encode(), f"the manifest of {path}")
        specs = Specs(*(spec_from_json(body[f"{kind}_spec"]) for kind in ("observation", "action", "reward")))
        steps, episodes, sources, checksums = (body[key] for key in ("steps", "episodes", "sources", "checksums"))
    except (CheckpointError, KeyError, TypeError, ValueError) as error:
        raise DataSetError(f"{path} has no manifest that makes sense: {error}") from error
    numbers_fit = all(type(number) is int and number >= 0 for number in (steps, episodes))
    lists_fit = isinstance(sources, list) and all(isinstance(one, dict) for one in sources)
    if not numbers_fit or not lists_fit or not isinstance(checksums, dict) or not isinstance(specs.reward, TensorSpec):
        raise DataSetError(f"{path} has no manifest that makes sense: steps, episodes, sources or checksums are wrong")
    return Manifest(specs, steps, episodes, tuple(sources), checksums)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
