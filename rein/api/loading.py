"""`rein.load`: agents from the directories that they were saved in."""

import os
from typing import Any, overload

from rein.api.agent import AgentHandle
from rein.api.making import ENV_NAME, EnvSource
from rein.api.own_random_numbers import RandomNumbers
from rein.config.errors import SavedConfigError
from rein.config.plain_files import read_json
from rein.training.ensemble_data import ensemble_supply
from rein.training.ensemble_handle import EnsembleHandle
from rein.training.policy import load_policy
from rein.training.run_directory import RunDirectory


@overload
def load(
    path: str | os.PathLike[str],
    env: EnvSource | None = None,
    *,
    data: None = None,
    checkpoint: int | str | None = None,
    trust: bool = False,
) -> AgentHandle: ...
@overload
def load(
    path: str | os.PathLike[str],
    env: None = None,
    *,
    data: Any,
    checkpoint: int | str | None = None,
    trust: bool = False,
) -> EnsembleHandle: ...
def load(
    path: str | os.PathLike[str],
    env: EnvSource | None = None,
    *,
    data: Any = None,
    checkpoint: int | str | None = None,
    trust: bool = False,
) -> AgentHandle | EnsembleHandle:
    """The agent that `AgentHandle.save` or `rein train` left in a directory.

    Args:
        path: the directory; it is not changed, also if the agent is trained further.
        env: needed if the agent was made with a function or class as environment; else replaces its environment.
        data: of a learner on labelled data, to train or evaluate it further; it predicts without.
        checkpoint: iteration of the checkpoint; None is the newest; "best" what the callback `KeepBest` has kept.
        trust: run code that was saved with the agent or that it names, such as confs with functions of their own; only
            for agents whose author you trust. Without, nothing that comes from the directory is run.
    """
    directory = RunDirectory.open(path, trust)
    record = directory.record()
    if record.get("ml_type") == "sl":
        supplied = ensemble_supply(record, list(_not_saved(directory)), data)
        return EnsembleHandle.load(directory, RandomNumbers(), checkpoint, supplied)
    supply = {} if env is None else {ENV_NAME: env}
    try:
        policy = load_policy(directory, checkpoint, supply)
    except SavedConfigError as error:
        if env is None and ENV_NAME in _not_saved(directory):
            raise ValueError(
                f"{path} was trained on {_not_saved(directory)[ENV_NAME]}, which cannot be saved: give it again, "
                "rein.load(path, env=...)"
            ) from error
        raise
    kept_as = checkpoint if isinstance(checkpoint, str) else None
    return AgentHandle(policy, directory, None, None, RandomNumbers(), supply, kept_as)


def _not_saved(directory: RunDirectory) -> dict[str, str]:
    index = directory.config / "overrides.json"
    content = read_json(index, directory.path) if index.exists() else {}
    found: dict[str, str] = content.get("not_saved", {})
    return found
