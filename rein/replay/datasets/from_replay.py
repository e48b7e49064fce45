"""Episodes out of saved replay buffers, whichever algorithm filled them."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from rein import nest
from rein.data_structures import Experience, TimeStep
from rein.nest import Nest
from rein.replay.datasets.episodes import cut_episodes, following_actions
from rein.replay.datasets.manifest import DataSetError, Specs
from rein.replay.storage import stored_fields
from rein.specs import TensorSpec


def episodes_of_replay(state: Mapping[str, Any], specs: Specs) -> Iterator[Experience]:
    """The episodes that a replay buffer held, oldest first in every environment.

    Actions are those that the environments report to have done. Of an episode that was cut by the ends of the buffer,
    the part that is there is given, as if by a time limit.

    Args:
        state: `ReplayBuffer.state_dict()` of time steps or experience.
        specs: what the environment gives and takes.

    Raises:
        ValueError: the buffer holds something else.
    """
    fields = stored_fields(state)
    sizes = [int(size) for size in state["current_size"]]
    begin = 0
    for size in sizes:
        rows = slice(begin, begin + size)
        begin += size
        if size > 1:
            yield from cut_episodes(_steps(fields, rows, specs))


def _steps(fields: dict[str, Tensor], rows: slice, specs: Specs) -> Experience:
    prefix = "time_step." if "time_step.step_type" in fields else ""

    def read(name: str, spec: Nest) -> Nest:
        leaves = []
        for path, leaf in nest.flatten_with_paths(spec):
            full = f"{prefix}{name}.{path}" if path else f"{prefix}{name}"
            found = fields.get(full)
            if found is None or found.shape[1:] != leaf.shape:
                there = None if found is None else tuple(found.shape[1:])
                raise DataSetError(f"the replay buffer has {full} of shape {there}, but the environment {leaf}")
            leaves.append(found[rows])
        return leaves[0] if isinstance(spec, TensorSpec) else nest.pack_sequence_as(spec, leaves)

    kind = TensorSpec((), torch.int32)
    prev_action = read("prev_action", specs.action)
    time_step = TimeStep(
        step_type=read("step_type", kind),
        reward=read("reward", specs.reward),
        discount=read("discount", TensorSpec(())),
        observation=read("observation", specs.observation),
        prev_action=prev_action,
    )
    return Experience(time_step=time_step, action=following_actions(prev_action))
