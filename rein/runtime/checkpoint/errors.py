"""What can go wrong with a checkpoint, by what the caller can do about it."""


class CheckpointError(RuntimeError):
    """A checkpoint could not be saved or read; the message says which, why and what to do."""


class CheckpointNotFoundError(CheckpointError):
    """There is no checkpoint where one was asked for; nothing is damaged."""


class DamagedCheckpointError(CheckpointError):
    """The content of a checkpoint is not what was saved: cut, altered, or never ours."""
