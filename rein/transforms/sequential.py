"""Several transformers, one after the other, and the rules of their order."""

import inspect
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from rein import nest
from rein.config import configurable
from rein.config.overrides import reference
from rein.data_structures import Experience, TimeStep
from rein.nest import Nest
from rein.runtime import resolve_device
from rein.specs import TensorSpec
from rein.transforms.base import DataSource, DataTransformer, IdentityDataTransformer
from rein.transforms.host import HostTransform, in_turn

__all__ = ["SequentialDataTransformer", "create_data_transformer"]


@configurable
class SequentialDataTransformer(DataTransformer):
    """Applies transformers in order.

    The replay buffer stores untransformed data, so those that look up further steps in it (`FrameStacker`,
    `HindsightExperienceTransformer`) must come before all that change the data: what they fetch would not match.
    `UntransformedTimeStep` changes nothing and comes first of all.
    """

    def __init__(
        self, data_transformer_ctors: Sequence[Callable[..., DataTransformer] | str], observation_spec: Nest
    ) -> None:
        """Constructs the transformers, each with the observation spec that the one before it leaves.

        Args:
            data_transformer_ctors: each is called as ``ctor(observation_spec)``, by keyword where it has a parameter of
                that name.
            observation_spec: specs of the raw observation.

        Raises:
            ValueError: if the order would mix untransformed with transformed data.
        """
        transformers: list[DataTransformer] = []
        spec = observation_spec
        for index, ctor in enumerate(data_transformer_ctors):
            transformer = _construct(ctor, spec, f"data_transformer_ctors[{index}]")
            spec = transformer.transformed_observation_spec
            transformers.append(transformer)
        _check_order(_members(transformers))
        super().__init__(spec, tuple(transformer.state_spec for transformer in transformers))
        self._transformers = nn.ModuleList(transformers)
        self._stack_size = max((transformer.stack_size for transformer in transformers), default=1)
        self.reads_replay_buffer = any(transformer.reads_replay_buffer for transformer in transformers)
        self.needs_replay_buffer = any(transformer.needs_replay_buffer for transformer in transformers)
        self.needs_episodic_info = any(transformer.needs_episodic_info for transformer in transformers)

    @property
    def transformers(self) -> tuple[DataTransformer, ...]:
        """The transformers in order."""
        return tuple(self._transformers)  # type: ignore[arg-type]

    @property
    def stack_size(self) -> int:
        """The largest of the stack sizes."""
        return self._stack_size

    def set_data_source(self, source: DataSource) -> None:
        """Tells all of them what the run learns from now."""
        super().set_data_source(source)
        for transformer in self.transformers:
            transformer.set_data_source(source)

    def set_reward_spec(self, reward_spec: TensorSpec) -> None:
        """Tells all of them the spec of the reward."""
        for transformer in self.transformers:
            transformer.set_reward_spec(reward_spec)

    def transform_timestep(self, timestep: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        """Transforms time steps [B, ...]; the state is a tuple with one entry per transformer."""
        new_states = []
        for transformer, own_state in zip(self.transformers, state, strict=True):
            timestep, new_state = transformer.transform_timestep(timestep, own_state)
            new_states.append(new_state)
        return timestep, tuple(new_states)

    def _host_transform(self) -> HostTransform | None:
        found = [transformer.host_transform() for transformer in self.transformers]
        whole = [one for one in found if one is not None]
        return in_turn(whole) if len(whole) == len(found) else None

    def transform_experience(self, experience: Experience) -> Experience:
        """Transforms experience [B, T, ...], with `batch_info` and `replay_buffer` set."""
        for transformer in self.transformers:
            experience = transformer.transform_experience(experience)
        return experience


def create_data_transformer(
    data_transformer_ctor: Callable[..., DataTransformer] | str | Sequence[Callable[..., DataTransformer] | str] | None,
    observation_spec: Nest,
    device: torch.device | str | None = None,
    reward_spec: TensorSpec | None = None,
) -> DataTransformer:
    """Makes one transformer of one or several constructors.

    Args:
        data_transformer_ctor: called as ``ctor(observation_spec)``, or the name of a configurable one, such as
            "ImageScaleTransformer"; of several, each gets the spec that the one before it leaves. None or an empty list gives
            a transformer that changes nothing.
        observation_spec: specs of the raw observation.
        device: where its statistics live; None leaves them on the default device.
        reward_spec: spec of the reward, for those that follow it; None means a scalar.
    """
    if data_transformer_ctor is None:
        transformer: DataTransformer = IdentityDataTransformer(observation_spec)
    elif callable(data_transformer_ctor) or isinstance(data_transformer_ctor, str):
        transformer = _construct(data_transformer_ctor, observation_spec, "data_transformer_ctor")
    elif len(data_transformer_ctor) == 0:
        transformer = IdentityDataTransformer(observation_spec)
    elif len(data_transformer_ctor) == 1:
        transformer = _construct(data_transformer_ctor[0], observation_spec, "data_transformer_ctor[0]")
    else:
        transformer = SequentialDataTransformer(data_transformer_ctor, observation_spec)
    if reward_spec is not None:
        transformer.set_reward_spec(reward_spec)
    return transformer if device is None else transformer.to(resolve_device(device))


def _construct(ctor: Any, observation_spec: Nest, what: str) -> DataTransformer:
    if isinstance(ctor, str):
        ctor = reference(ctor)
    if not callable(ctor):
        raise TypeError(f"{what} is {ctor!r}: give a class or function that is called with an observation spec")
    by_keyword = "observation_spec" in _parameter_names(ctor)
    transformer = ctor(observation_spec=observation_spec) if by_keyword else ctor(observation_spec)
    if not isinstance(transformer, DataTransformer):
        raise TypeError(f"{what} returned a {type(transformer).__name__}: it must return a DataTransformer")
    # Those that leave the observation alone may have been made without its spec.
    if transformer._transformed_observation_spec is None or nest.is_empty(transformer._transformed_observation_spec):
        transformer._transformed_observation_spec = observation_spec
    return transformer


def _parameter_names(ctor: Callable[..., Any]) -> set[str]:
    """Names of the parameters that can be given by keyword; none where a callable does not tell."""
    try:
        parameters = inspect.signature(ctor).parameters.values()
    except ValueError:
        return set()
    return {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


def _members(transformers: Sequence[DataTransformer]) -> list[DataTransformer]:
    """The transformers, sequences among them replaced by what they hold."""
    members: list[DataTransformer] = []
    for transformer in transformers:
        if isinstance(transformer, SequentialDataTransformer):
            members += _members(transformer.transformers)
        else:
            members.append(transformer)
    return members


def _check_order(members: Sequence[DataTransformer]) -> None:
    names = [type(member).__name__ for member in members]
    order = " -> ".join(names)
    for name, member in zip(names[1:], members[1:], strict=True):
        if member.must_be_first:
            raise ValueError(
                f"{name} must be the first data transformer, but the order is {order}: move it to the front"
            )
    rest = [(name, member) for name, member in zip(names, members, strict=True) if not member.must_be_first]
    for (before, first), (name, second) in pairwise(rest):
        if second.reads_replay_buffer and not first.reads_replay_buffer:
            raise ValueError(
                f"{name} comes after {before} in {order}: data transformers that read the replay buffer must come before "
                f"all others, because the buffer holds untransformed data. Move {name} in front of {before}"
            )
    _check_fields([(name, member) for name, member in rest if member.reads_replay_buffer])


def _check_fields(readers: Sequence[tuple[str, DataTransformer]]) -> None:
    """Refuses that one reads fields as stored which one before it has changed in the sampled data."""
    for index, (name, reader) in enumerate(readers):
        for before, changer in readers[:index]:
            for path in reader._fields_read_from_buffer():
                for changed in changer._fields_changed():
                    if _overlap(path, changed):
                        raise ValueError(
                            f"{name} reads {path!r} from the replay buffer, but {before} in front of it changes "
                            f"{changed!r}, so that the two would not match: let each have its own fields"
                        )


def _overlap(path: str, other: str) -> bool:
    """Whether one of two dotted paths is the other or lies in it."""
    return f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}.")
