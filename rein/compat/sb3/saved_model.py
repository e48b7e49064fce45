"""Models that are saved and loaded: what scripts know as the base of them all."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Self

from rein.compat.sb3 import archive
from rein.compat.sb3.keywords import refuse
from rein.compat.sb3.model import TrainedModel
from rein.compat.sb3.policy import Acting
from rein.compat.sb3.run import on_device
from rein.compat.sb3.saved_keywords import facts_of, keywords_of


class BaseAlgorithm(TrainedModel):
    """A model: a policy with what trains it, in memory and in files."""

    def get_parameters(self) -> dict[str, dict[str, Any]]:
        """All that is learnt: `{"policy": tensors by name}`, optimizers included."""
        return {"policy": dict(self._require_acting().algorithm.state_dict())}

    def set_parameters(self, load_path_or_dict: Any, exact_match: bool = True, device: Any = "auto") -> None:
        """Takes over what `get_parameters` gave.

        Args:
            load_path_or_dict: that, or the path of a saved model.
            exact_match: False takes what is there, and leaves the rest.
            device: not used: parameters stay where they are.
        """
        given = load_path_or_dict
        state = given["policy"] if isinstance(given, Mapping) else archive.read(archive.zip_path(given)).state["alg"]
        algorithm = self._require_acting().algorithm
        if not exact_match:
            state = {**algorithm.state_dict(), **state}
        algorithm.load_state_dict(dict(state))

    def save(
        self, path: archive.Target, exclude: Iterable[str] | None = None, include: Iterable[str] | None = None
    ) -> None:
        """Saves the model in one file; loading it runs no code.

        Args:
            path: `.zip` is added if it has no ending.
            exclude: keywords to leave out, which then have their defaults.
            include: must be empty.
        """
        if include:
            refuse(type(self).__name__, "include", list(include))
        facts = facts_of(self, self._keywords, self._given_observation_space, set(exclude or ()))
        archive.write(archive.zip_path(path), facts, {"alg": dict(self._require_acting().algorithm.state_dict())})

    @classmethod
    def load(
        cls,
        path: archive.Target,
        env: Any = None,
        device: Any = "auto",
        custom_objects: Mapping[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        **kwargs: Any,
    ) -> Self:
        """The model that `save` saved.

        Args:
            path: of the file; `.zip` may be left out.
            env: to train further in; the model acts without.
            device: where it lives.
            custom_objects: values of keywords that replace the saved ones; needed for functions, to train further.
            print_system_info: print the version of this package.
            force_reset: must be True.
            **kwargs: values of keywords, too.
        """
        content = archive.read(archive.zip_path(path))
        facts = content.facts
        if facts["class"] != cls.__name__:
            raise ValueError(f"{path} holds a model of {facts['class']}: load it with {facts['class']}.load")
        if print_system_info:
            print({"saved with": facts["rein"]})
        if not force_reset:
            refuse(cls.__name__, "force_reset", force_reset)
        keywords = keywords_of(facts, set(inspect.signature(cls).parameters), {**(custom_objects or {}), **kwargs})
        keywords.setdefault("device", device)
        model = cls(facts["policy"], None, **keywords)  # type: ignore[call-arg]
        model._adopt(facts, content.state["alg"], env)
        return model

    def _adopt(self, facts: Mapping[str, Any], state: Mapping[str, Any], env: Any) -> None:
        """Builds what was saved: to train, or without an environment to act."""
        self.observation_space = archive.space_from_json(facts["observation_space"])
        self.action_space = archive.space_from_json(facts["action_space"])
        self._given_observation_space = archive.space_from_json(facts["given_space"])
        self.n_envs = int(facts["num_envs"])
        self.num_timesteps = int(facts["num_timesteps"])
        if env is not None:
            self.set_env(env)
        else:
            with on_device(self.device):
                self._acting = Acting.without_world(
                    self._settings, self.observation_space, self.action_space, self.run_seed, self._sampled_share
                )
        self._require_acting().algorithm.load_state_dict(dict(state))

    # Replay buffers.

    @property
    def has_replay_buffer(self) -> bool:
        """Whether there is a replay buffer with steps in it."""
        return (
            not self.is_on_policy and self._trainer is not None and self._trainer.algorithm.learning.buffer is not None
        )

    def save_replay_buffer(self, path: archive.Target) -> None:
        """Saves all stored steps in a file."""
        if not self.has_replay_buffer:
            raise ValueError("there is no replay buffer yet: train an off-policy model first")
        assert self._trainer is not None
        state = self._trainer.algorithm.learning.state_dict()
        archive.write(path, {"class": "ReplayBuffer"}, {"replay_buffer": state})

    def load_replay_buffer(self, path: archive.Target, truncate_last_traj: bool = True) -> None:
        """Takes over stored steps from a file."""
        if self._trainer is None or self.is_on_policy:
            raise ValueError("only an off-policy model with an environment takes a replay buffer: call set_env first")
        state = archive.read(path).state["replay_buffer"]
        self._trainer.restore_replay(state)
