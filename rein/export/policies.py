"""`export_policy`: a trained policy into a file, and the proof that the file does the same."""

import os
from pathlib import Path
from typing import Any, NamedTuple

from rein.export.exported import ExportedPolicy
from rein.export.files import format_of, require_format, write
from rein.export.parity import Parity, compare
from rein.export.signature import Signature
from rein.export.tracing import trace_policy
from rein.framework.acting.actor import Purpose
from rein.training.policy import Policy


class Export(NamedTuple):
    """What was written."""

    path: Path
    format: str
    signature: Signature
    parity: Parity | None
    """None if it was not asked for."""

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        parity = None if self.parity is None else {**self.parity._asdict(), "holds": self.parity.holds}
        size = self.path.stat().st_size
        return {
            "file": str(self.path),
            "bytes": size,
            "format": self.format,
            **self.signature.to_json(),
            "parity": parity,
        }


def export_policy(
    policy: Policy,
    path: str | os.PathLike[str],
    format: str | None = None,
    check_steps: int = 1000,
    deterministic: bool = True,
    facts: dict[str, Any] | None = None,
) -> Export:
    """Writes the complete policy into one file: data transformers, networks, choice of action, bounds.

    The file is read back and compared with `predict` on the same observations.

    Args:
        policy: to export.
        path: the file, ending in .onnx or .pt2 unless the format is given.
        format: "onnx" or "torch".
        check_steps: how long to compare, in steps of each of two worlds; 0 does not.
        deterministic: whether the file gives the best action; else one that is drawn as in training, from noise that is an
            input.
        facts: about the policy, kept in the file.

    Raises:
        ExportError: the policy cannot be exported.
    """
    path = Path(path)
    chosen = format_of(path) if format is None else format
    require_format(chosen)
    if check_steps < 0:
        raise ValueError(f"check_steps is {check_steps}: give 0 or more")
    purpose: Purpose = "predict" if deterministic else "rollout"
    name = type(policy.algorithm).__name__
    known = {"algorithm": name, "checkpoint": policy.checkpoint, "deterministic": deterministic, **(facts or {})}
    traced = trace_policy(policy, known, purpose)
    write(traced, path, chosen)
    exported = ExportedPolicy(path, trust=True, format=chosen)
    parity = compare(policy, exported, check_steps, purpose) if check_steps else None
    return Export(path, chosen, traced.signature, parity)
