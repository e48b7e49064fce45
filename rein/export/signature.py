"""What goes into an exported policy and what comes out: names, shapes, and which output is the next value of which input."""

from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch

from rein import nest
from rein.nest import Nest
from rein.specs import TensorSpec, numpy_dtype
from rein.version import __version__

FORMAT_VERSION = 1

Kind = Literal["observation", "is_first", "state", "noise", "action", "next_state"]


class Port(NamedTuple):
    """One tensor that goes in or comes out, always with a batch dimension in front."""

    name: str
    kind: Kind
    path: str
    """Where it stands in the observation, action or state, dotted; "" if that is this one tensor. Of noise, which
    call for random numbers in a step it answers."""
    shape: tuple[int, ...]
    """Without the batch dimension."""
    dtype: str
    """Name of the numpy dtype."""
    draw: str = ""
    """Of noise: "normal" (standard normal) or "uniform" (from 0 to 1)."""

    @classmethod
    def of(cls, name: str, kind: Kind, path: str, spec: TensorSpec, draw: str = "") -> Self:
        """The port of a tensor that `spec` describes."""
        return cls(name, kind, path, tuple(spec.shape), numpy_dtype(spec.dtype).name, draw)

    @property
    def torch_dtype(self) -> torch.dtype:
        """The torch dtype."""
        return torch.from_numpy(np.empty(0, self.dtype)).dtype

    def describe(self) -> str:
        """The port in a line: "observation: float32 [batch, 4]"."""
        sizes = ", ".join(["batch", *map(str, self.shape)])
        drawn = {"normal": ", standard normal numbers", "uniform": ", uniform from 0 to 1", "": ""}[self.draw]
        return f"{self.name}: {self.dtype} [{sizes}]{drawn}"


class Signature(NamedTuple):
    """All ports of an exported policy, in order."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    """Actions first, then for each state among the inputs, in the same order, its next value."""
    action: Any
    """The structure of the action: an index of `outputs`, or a dict or list of structures."""
    facts: dict[str, Any]
    """Where the policy came from, for people."""

    def inputs_of(self, kind: Kind) -> list[Port]:
        """The inputs of a kind, in order."""
        return [port for port in self.inputs if port.kind == kind]

    def to_json(self) -> dict[str, Any]:
        """What is stored in the file of the policy."""
        return {
            "format": FORMAT_VERSION,
            "rein": __version__,
            "inputs": [port._asdict() for port in self.inputs],
            "outputs": [port._asdict() for port in self.outputs],
            "action": self.action,
            "facts": self.facts,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The signature that `to_json` wrote."""
        if data.get("format") != FORMAT_VERSION:
            raise ValueError(
                f"the exported policy has format {data.get('format')!r}, and this Rein reads {FORMAT_VERSION}"
            )
        inputs, outputs = (
            tuple(Port(**{**port, "shape": tuple(port["shape"])}) for port in data[key])
            for key in ("inputs", "outputs")
        )
        return cls(inputs, outputs, data["action"], data["facts"])


def named(stem: str, kind: Kind, specs: Nest) -> list[Port]:
    """A port for each leaf of `specs`, named after its path below `stem`."""
    return [
        Port.of(f"{stem}.{path}" if path else stem, kind, path, spec) for path, spec in nest.flatten_with_paths(specs)
    ]


def structure_of(specs: Nest) -> Any:
    """The structure of a nest as JSON, with its leaves numbered in the order of `nest.flatten`."""
    numbered = nest.pack_sequence_as(specs, range(len(nest.flatten(specs))))
    return _plain(numbered)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value


def pack(structure: Any, leaves: list[Any]) -> Any:
    """Leaves in a structure of `structure_of`; lists become tuples."""
    if isinstance(structure, dict):
        return {key: pack(part, leaves) for key, part in structure.items()}
    return tuple(pack(part, leaves) for part in structure) if isinstance(structure, list) else leaves[structure]


def leaf_at(value: Any, path: str) -> Any:
    """The part of a nest of arrays at a dotted path."""
    for key in path.split(".") if path else ():
        if isinstance(value, tuple | list):
            value = value[int(key)]
        elif hasattr(value, "keys") and key in value:
            value = value[key]
        else:
            raise ValueError(f"the observation lacks {path!r}: give it as the environment does")
    return value
