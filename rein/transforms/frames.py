"""Observations that show the last few frames at once, while the buffer stores each frame once."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.data_structures import Experience, TimeStep
from rein.nest import Nest
from rein.replay import ReplayBuffer
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.transforms.base import DataTransformer
from rein.transforms.fields import tensor_fields

__all__ = ["FrameStackState", "FrameStacker"]


class FrameStackState(NamedTuple):
    """What `FrameStacker` remembers of each environment."""

    steps: Nest = ()
    """int64 [B], frames seen since the episode began."""
    prev_frames: Nest = ()
    """For each stacked field, its last `stack_size - 1` frames, [B, ...], joined along the stack axis."""


@configurable
class FrameStacker(DataTransformer):
    """Joins each frame with the ones before it, the newest last; before the episode began, its first frame is repeated.

    In replay the earlier frames are fetched from the buffer, which therefore must not sample its `stack_size - 1` oldest
    steps (`ReplayBuffer.num_earliest_frames_ignored`).
    """

    reads_replay_buffer = True
    needs_episodic_info = True

    def __init__(
        self,
        observation_spec: Nest,
        stack_size: int = 4,
        stack_axis: int = 0,
        fields: Sequence[str] | None = None,
    ) -> None:
        """Works out what the stacked observation looks like.

        Args:
            observation_spec: specs of the observation.
            stack_size: number of frames to join.
            stack_axis: dimension of the observation, without batch dimensions, that becomes `stack_size` times as long;
                numbers become vectors [stack_size].
            fields: dotted paths of the tensors to stack; None if the observation is one tensor.
        """
        if not isinstance(stack_size, int) or stack_size < 1:
            raise ValueError(f"stack_size is {stack_size!r}: give the number of frames, at least 1")
        specs = tensor_fields(fields, observation_spec, "FrameStacker")
        axes = {field: _axis(field, spec, stack_axis) for field, spec in specs.items()}
        transformed = observation_spec
        for field, spec in specs.items():
            stacked = _repeated(spec, stack_size, axes[field])
            transformed = nest.set_field(transformed, field, stacked)
        frames = [_repeated(spec, stack_size - 1, axes[field]) for field, spec in specs.items()]
        super().__init__(transformed, FrameStackState(steps=TensorSpec((), torch.int64), prev_frames=frames))
        self._axes = axes
        self._numbers = {field for field, spec in specs.items() if spec.ndim == 0}
        self._stack_size = stack_size
        self._paths = [f"time_step.observation.{field}".rstrip(".") for field in specs]

    @property
    def stack_size(self) -> int:
        """Number of frames that are joined."""
        return self._stack_size

    def transform_timestep(self, time_step: TimeStep, state: FrameStackState) -> tuple[TimeStep, FrameStackState]:
        """Joins the frames of time steps [B, ...] with the remembered ones.

        Args:
            time_step: tensors [B, ...].
            state: what the previous call returned, or zeros, which count as the beginning of an episode.
        """
        begins = time_step.is_first() | (state.steps == 0)
        # A recorded graph cannot look at values.
        anything_begins = self._stack_size > 1 and (torch.compiler.is_compiling() or bool(begins.any()))
        observation = time_step.observation
        remembered = []
        for (field, axis), previous in zip(self._axes.items(), state.prev_frames, strict=True):
            frame = nest.get_field(observation, field)
            frame = frame.unsqueeze(1) if field in self._numbers else frame
            dim = axis + 1
            if anything_begins:
                repeated = torch.cat([frame] * (self._stack_size - 1), dim)
                previous = torch.where(nest.expand_dims_as(begins, previous), repeated, previous)
            stacked = torch.cat([previous, frame], dim)
            size = frame.shape[dim]
            remembered.append(stacked.narrow(dim, size, stacked.shape[dim] - size))
            observation = nest.set_field(observation, field, stacked)
        steps = torch.where(begins, 1, state.steps + 1)
        return time_step._replace(observation=observation), FrameStackState(steps, remembered)

    def transform_experience(self, experience: Experience) -> Experience:
        """Joins the frames of experience [B, T, ...] with earlier ones from the replay buffer.

        Raises:
            ValueError: if an earlier frame of the same episode has been overwritten.
        """
        if self._stack_size == 1:
            return experience
        buffer = self._buffer_of(experience)
        info = experience.batch_info
        env_ids = info.env_ids[:, None]
        times = torch.arange(experience.step_type.shape[1], device=env_ids.device)
        positions = info.positions[:, None] + times
        begin = buffer.get_episode_begin_position(positions, env_ids)
        offsets = torch.arange(1 - self._stack_size, 1, device=env_ids.device)
        shown = torch.maximum(positions[:, :, None] + offsets, begin[:, :, None])
        self._check_stored(buffer, info.env_ids, shown[:, 0, 0])
        # The sampled frames themselves are fetched again: one gather is cheaper than joining what is here and there.
        fields = buffer.get_field(self._paths, env_ids[:, :, None], shown)
        observation = experience.observation
        for (field, axis), frames in zip(self._axes.items(), fields, strict=True):
            frames = frames.unsqueeze(3) if field in self._numbers else frames
            stacked = frames.movedim(2, axis + 2).flatten(axis + 2, axis + 3)
            observation = nest.set_field(observation, field, stacked)
        return experience._replace(time_step=experience.time_step._replace(observation=observation))

    def _check_stored(self, buffer: ReplayBuffer, env_ids: Tensor, positions: Tensor) -> None:
        """Refuses the oldest frames of sequences, positions [B], that are gone."""
        earliest = (buffer.current_pos - buffer.current_size).to(positions.device)[env_ids]
        is_lost = positions < earliest
        if bool(is_lost.any()):
            where = int(is_lost.nonzero()[0])
            raise ValueError(
                f"FrameStacker needs the {self._stack_size - 1} frames before each sampled step, but position "
                f"{int(positions[where])} of environment {int(env_ids[where])} is no longer in {buffer.name}: make "
                f"the buffer with num_earliest_frames_ignored={self._stack_size - 1} or more, and read all of it with "
                "gather_all(ignore_earliest_frames=True)"
            )

    def _fields_read_from_buffer(self) -> tuple[str, ...]:
        return tuple(self._paths)

    def _fields_changed(self) -> tuple[str, ...]:
        return tuple(self._paths)


def _axis(field: str, spec: TensorSpec, stack_axis: int) -> int:
    """The stack axis of a field, not negative; a number counts as a vector of one."""
    ndim = max(spec.ndim, 1)
    axis = stack_axis + ndim if stack_axis < 0 else stack_axis
    if not 0 <= axis < ndim:
        name = f"field {field!r}" if field else "the observation"
        raise ValueError(f"stack_axis is {stack_axis}, but {name} has shape {tuple(spec.shape)}")
    return axis


def _repeated(spec: TensorSpec, times: int, axis: int) -> TensorSpec:
    """The spec of `times` tensors joined along an axis, with their bounds."""
    shape = list(spec.shape) or [1]
    shape[axis] *= times
    if times > 0 and isinstance(spec, BoundedTensorSpec):
        bounds = (np.atleast_1d(bound) for bound in (spec.minimum, spec.maximum))
        low, high = (np.concatenate([bound] * times, axis) for bound in bounds)
        return BoundedTensorSpec(shape, spec.dtype, low, high)
    return TensorSpec(shape, spec.dtype)
