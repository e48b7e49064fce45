"""What a data transformer is: it stands between the environment or the replay buffer and the algorithm.

The replay buffer stores what the environment gave, untransformed, so a transformer is met twice: step by step while acting
(`transform_timestep`), and on sampled sequences while learning (`transform_experience`). Both must show the algorithm the
same thing. Nothing is ever written into the tensors that come in: they may belong to the environment or to the buffer.
"""

from typing import ClassVar, Literal, TypeAlias

from torch import nn

from rein.config import configurable
from rein.data_structures import Experience, TimeStep
from rein.nest import Nest
from rein.replay import ReplayBuffer
from rein.specs import TensorSpec
from rein.transforms.host import HostTransform, transforms_otherwise

__all__ = ["DataSource", "DataTransformer", "IdentityDataTransformer", "SimpleDataTransformer"]

DataSource: TypeAlias = Literal["replay", "rollout", "pretrain"]
"""What a run learns from: its replay buffer, its fresh rollouts, or offline data before it acts."""

DATA_SOURCES: tuple[DataSource, ...] = ("replay", "rollout", "pretrain")


class DataTransformer(nn.Module):
    """Changes time steps and experience before an algorithm sees them."""

    reads_replay_buffer: bool = False
    """Whether `transform_experience` looks up further steps in the replay buffer."""
    needs_replay_buffer: bool = False
    """Whether it does nothing for an algorithm that learns from its rollouts alone."""
    needs_episodic_info: bool = False
    """Whether the replay buffer must know where episodes begin and end (`keep_episodic_info`)."""
    must_be_first: ClassVar[bool] = False
    """Whether no other transformer may come before it."""

    def __init__(self, transformed_observation_spec: Nest, state_spec: Nest) -> None:
        """Keeps the specs.

        Args:
            transformed_observation_spec: specs of the observation after the transformation; None if unknown.
            state_spec: specs of what `transform_timestep` carries from step to step, without batch dimension.
        """
        super().__init__()
        self._transformed_observation_spec = transformed_observation_spec
        self._state_spec = state_spec
        self._data_source: DataSource = "replay"

    @property
    def transformed_observation_spec(self) -> Nest:
        """Specs of the observation that the algorithm gets."""
        if self._transformed_observation_spec is None:
            raise ValueError(f"{type(self).__name__} was made without observation_spec, so it knows no transformed one")
        return self._transformed_observation_spec

    @property
    def state_spec(self) -> Nest:
        """Specs of what `transform_timestep` carries from step to step; `()` if nothing."""
        return self._state_spec

    @property
    def stack_size(self) -> int:
        """Number of frames that one transformed observation shows: it looks back `stack_size - 1` stored steps."""
        return 1

    @property
    def data_source(self) -> DataSource:
        """What the run learns from."""
        return self._data_source

    def set_data_source(self, source: DataSource) -> None:
        """Tells what the run learns from now, for those that follow statistics of the data; "replay" unless told.

        Args:
            source: "rollout" where `transform_experience` is never called because rollouts are learned from as they are;
                "pretrain" while offline data is learned from before the run acts.
        """
        if source not in DATA_SOURCES:
            raise ValueError(f"data source is {source!r}: give one of {DATA_SOURCES}")
        self._data_source = source

    def set_reward_spec(self, reward_spec: TensorSpec) -> None:
        """Tells the spec of the reward, before any data, to those that need it."""

    def transform_timestep(self, timestep: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        """Transforms what the environments show now, during rollout or evaluation.

        Args:
            timestep: tensors [B, ...].
            state: what the previous call returned; zeros [B, ...] of `state_spec` for the first.

        Returns:
            The transformed time step, and the state for the next call.
        """
        raise NotImplementedError(f"{type(self).__name__} must define transform_timestep")

    def host_transform(self) -> HostTransform | None:
        """What does in a quick rollout that begins now what `transform_timestep` would do; None if nothing does.

        A transformer that gives one has no state.
        """
        return None if transforms_otherwise(type(self)) else self._host_transform()

    def _host_transform(self) -> HostTransform | None:
        """See `host_transform`; no subclass below this one transforms time steps in another way."""
        return None

    def transform_experience(self, experience: Experience) -> Experience:
        """Transforms what was sampled from the replay buffer.

        Args:
            experience: tensors [B, T, ...], with `batch_info` and `replay_buffer` set.
        """
        raise NotImplementedError(f"{type(self).__name__} must define transform_experience")

    def _fields_read_from_buffer(self) -> tuple[str, ...]:
        """Paths in the experience that it looks up in the buffer, and so must find there as they were stored."""
        return ()

    def _fields_changed(self) -> tuple[str, ...]:
        """Of a transformer that reads the buffer, the paths in the experience that it changes."""
        return ()

    def _buffer_of(self, experience: Experience) -> ReplayBuffer:
        """The buffer that `experience` was sampled from."""
        info = experience.batch_info
        for buffer in (experience.replay_buffer, getattr(info, "replay_buffer", ())):
            if isinstance(buffer, ReplayBuffer):
                return buffer
        raise ValueError(
            f"{type(self).__name__} looks up steps in the replay buffer, but the experience has none: set its "
            "batch_info and replay_buffer"
        )


class SimpleDataTransformer(DataTransformer):
    """A transformer of single time steps; a subclass defines `_transform`."""

    def __init__(self, transformed_observation_spec: Nest) -> None:
        """Keeps the spec.

        Args:
            transformed_observation_spec: specs of the observation after the transformation; None if unknown.
        """
        super().__init__(transformed_observation_spec, ())

    def transform_timestep(self, timestep: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        """Transforms time steps [B, ...]; the state stays as it is."""
        return self._transform(timestep), state

    def transform_experience(self, experience: Experience) -> Experience:
        """Transforms the time steps of experience [B, T, ...]."""
        return experience._replace(time_step=self._transform(experience.time_step))

    def _transform(self, time_step: TimeStep) -> TimeStep:
        """The transformed copy of time steps with any batch dimensions."""
        raise NotImplementedError(f"{type(self).__name__} must define _transform")


@configurable
class IdentityDataTransformer(SimpleDataTransformer):
    """Keeps the data as it is."""

    def __init__(self, observation_spec: Nest = None) -> None:
        """Keeps the spec.

        Args:
            observation_spec: specs of the observation; only `transformed_observation_spec` needs it.
        """
        super().__init__(observation_spec)

    def _host_transform(self) -> HostTransform | None:
        return HostTransform()

    def _transform(self, time_step: TimeStep) -> TimeStep:
        return time_step
