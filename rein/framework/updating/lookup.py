"""Looking ahead in a replay buffer, through the data transformer: an algorithm sees there what it sees in its batches."""

import torch
from torch import Tensor

from rein.data_structures import BatchInfo, Experience, TimeStep
from rein.nest import Nest, map_structure
from rein.statistics import frozen_statistics
from rein.transforms import DataTransformer


def steps_ahead(
    batch_info: BatchInfo, length: int, num_steps: int, transformer: DataTransformer | None = None
) -> tuple[TimeStep, Tensor]:
    """The stored time steps at and after each step of sampled sequences.

    Args:
        batch_info: of sequences that were sampled from its `replay_buffer`, [B].
        length: steps per sequence, T.
        num_steps: how far to look, K.
        transformer: applied to what is found; its statistics stand still.

    Returns:
        Time steps [B, T, K + 1, ...], and bool [B, T, K + 1] whether each is stored; where it is not, the newest one
        stands in its place.
    """
    buffer = batch_info.replay_buffer
    starts = (batch_info.positions[:, None] + torch.arange(length)).flatten()
    env_ids = batch_info.env_ids.repeat_interleave(length)
    positions = starts[:, None] + torch.arange(num_steps + 1)
    newest = buffer.current_pos[env_ids][:, None] - 1
    is_stored = positions <= newest
    time_step: TimeStep = buffer.get_field("time_step", env_ids[:, None], torch.minimum(positions, newest))
    if transformer is not None:
        rows = BatchInfo(env_ids=env_ids, positions=starts, replay_buffer=buffer)
        with frozen_statistics():
            time_step = transformer.transform_experience(
                Experience(time_step, batch_info=rows, replay_buffer=buffer)
            ).time_step
    shape = (-1, length, num_steps + 1)
    split: Nest = map_structure(lambda tensor: tensor.reshape(*shape, *tensor.shape[2:]), time_step)
    return split, is_stored.reshape(shape)  # type: ignore[return-value]
