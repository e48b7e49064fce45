"""`rein.load`: agents from the directories that they were saved in."""

import os
from collections.abc import Mapping
from typing import Any, overload

from rein.api.agent import AgentHandle
from rein.api.making import EnvSource
from rein.api.own_random_numbers import RandomNumbers
from rein.config.errors import MissingValuesError
from rein.config.saving import values_not_saved
from rein.training.ensemble_data import ensemble_supply
from rein.training.ensemble_handle import EnsembleHandle
from rein.training.policy import load_policy
from rein.training.run_directory import RunDirectory
from rein.training.supplying import ENV_NAME


@overload
def load(
    path: str | os.PathLike[str],
    env: EnvSource | None = None,
    *,
    data: None = None,
    checkpoint: int | str | None = None,
    supply: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> AgentHandle: ...
@overload
def load(
    path: str | os.PathLike[str],
    env: None = None,
    *,
    data: Any,
    checkpoint: int | str | None = None,
    supply: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> EnsembleHandle: ...
def load(
    path: str | os.PathLike[str],
    env: EnvSource | None = None,
    *,
    data: Any = None,
    checkpoint: int | str | None = None,
    supply: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> AgentHandle | EnsembleHandle:
    """The agent that `AgentHandle.save` or `rein train` left in a directory.

    Args:
        path: the directory; it is not changed, also if the agent is trained further.
        env: needed if the agent was made with an environment that no name in a module leads to, such as an instance or a
            local function; else replaces its environment.
        data: of a learner on labelled data, to train or evaluate it further; it predicts without.
        checkpoint: iteration of the checkpoint; None is the newest; "best" what the callback `KeepBest` has kept.
        supply: values of settings that could not be saved, by name: functions and classes of a script or notebook, lambdas;
            `save` says which. Any other setting may be replaced here, too.
        trust: run code that was saved with the agent, such as confs with functions of their own, and import the modules that
            it names; only for agents whose author you trust. Without, nothing that comes from the directory is run, and
            functions and classes of your own are found in modules that are imported already.
    """
    directory = RunDirectory.open(path, trust)
    record = directory.record()
    given = dict(supply or {})
    if record.get("ml_type") == "sl":
        given |= ensemble_supply(record, list(values_not_saved(directory.config)), data)
        return EnsembleHandle.load(directory, RandomNumbers(), checkpoint, given)
    if env is not None:
        given[ENV_NAME] = env
    try:
        policy = load_policy(directory, checkpoint, given)
    except MissingValuesError as error:
        if list(error.missing) == [ENV_NAME]:
            raise ValueError(
                f"{path} was trained on {error.missing[ENV_NAME]}, which cannot be saved: give it again, "
                "rein.load(path, env=...)"
            ) from error
        raise
    kept_as = checkpoint if isinstance(checkpoint, str) else None
    return AgentHandle(policy, directory, None, None, RandomNumbers(), given, kept_as)
