"""Fields that show the last few frames at once, of which only the newest is stored."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rein import nest
from rein.nest import Nest
from rein.replay.episode_index import EpisodeIndex
from rein.replay.storage import RowStorage
from rein.specs import TensorSpec

__all__ = ["FrameStack", "find_stacks"]


@dataclass(frozen=True)
class FrameStack:
    """A field that is a stack of frames, the newest last."""

    path: str
    index: int
    """Index of the field in the storage."""
    axis: int
    """Dimension of the stack in the spec of the field."""
    size: int
    """Number of frames."""
    frame_spec: TensorSpec
    pads_zeros: bool
    """Whether zeros stand for frames before the episode, or else its first frame."""

    def newest(self, stacked: Tensor) -> Tensor:
        """The newest frames, contiguous, of stacks with one batch dimension."""
        return stacked.select(self.axis + 1, self.size - 1).contiguous()

    def read(
        self,
        storage: RowStorage,
        episodes: EpisodeIndex,
        env_ids: Tensor,
        positions: Tensor,
        length: int | None,
    ) -> Tensor:
        """The stacks that belonged to stored steps.

        Near the oldest stored step of an environment, frames that are already overwritten are shown as the oldest one.

        Args:
            storage: where the frames are.
            episodes: tells where stacks begin anew.
            env_ids: int64 [B].
            positions: int64 [B].
            length: number of steps from each position on, or None for one without a time dimension.

        Returns:
            [B, length, ...], or [B, ...] if `length` is None.
        """
        outer = (len(positions),) if length is None else (len(positions), length)
        if length is not None:
            positions = (positions[:, None] + torch.arange(length, device=positions.device)).reshape(-1)
            env_ids = env_ids.repeat_interleave(length)
        begin = episodes.begin(env_ids, positions)[:, None]
        back = torch.arange(self.size - 1, -1, -1, device=positions.device)
        wanted = positions[:, None] - back
        shown = torch.maximum(torch.maximum(wanted, begin), episodes.earliest(env_ids)[:, None])
        owners = env_ids.repeat_interleave(self.size)
        frames = storage.read((self.index,), owners, shown.reshape(-1))[0]
        if self.pads_zeros:
            frames[(wanted < begin).reshape(-1)] = 0
        frames = frames.reshape(*outer, self.size, *self.frame_spec.shape)
        return frames.movedim(len(outer), len(outer) + self.axis)


def find_stacks(data_spec: Nest, stacked_fields: Mapping[str, int], padding: str) -> dict[int, FrameStack]:
    """The stacked fields of `data_spec` by index.

    Args:
        data_spec: nest of specs of one step.
        stacked_fields: stack axis by path.
        padding: "repeat" or "zero".
    """
    if padding not in ("repeat", "zero"):
        raise ValueError(f"stack_padding is {padding!r}: give 'repeat' or 'zero'")
    named = nest.flatten_with_paths(data_spec)
    indices = {path: index for index, (path, _) in enumerate(named)}
    stacks = {}
    for path, axis in stacked_fields.items():
        if path not in indices:
            raise ValueError(f"stacked_fields names {path!r}: data_spec has {list(indices)}")
        spec = named[indices[path]][1]
        if not 0 <= axis < spec.ndim or spec.shape[axis] < 1:
            raise ValueError(f"stacked_fields gives axis {axis} for {path!r}, which is {spec}")
        shape = [size for dim, size in enumerate(spec.shape) if dim != axis]
        frame = TensorSpec(shape, spec.dtype)
        index = indices[path]
        stacks[index] = FrameStack(path, index, axis, spec.shape[axis], frame, padding == "zero")
    return stacks
