"""Crash-safe checkpoints in safetensors and JSON; reading one never runs code.

`Checkpointer` saves and loads the checkpoints of a run, `load_partial` reads a part of one.
"""

from rein.runtime.checkpoint.archive import Checkpoint
from rein.runtime.checkpoint.checkpointer import Checkpointer
from rein.runtime.checkpoint.errors import (
    CheckpointError,
    CheckpointNotFoundError,
    DamagedCheckpointError,
)
from rein.runtime.checkpoint.manifest import Manifest
from rein.runtime.checkpoint.partial import load_partial, split_location
from rein.runtime.checkpoint.restoring import restore_like

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "CheckpointNotFoundError",
    "Checkpointer",
    "DamagedCheckpointError",
    "Manifest",
    "load_partial",
    "restore_like",
    "split_location",
]
