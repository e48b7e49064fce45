"""Fragments: what a collector hands over."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.data_structures import Experience, StepType
from rein.distributions import params_to_distributions
from rein.nest import Nest


class Fragment(NamedTuple):
    """Some steps of the environments of one collector."""

    collector: int
    number: int
    """Counts the fragments that were asked for; no two have the same, whoever delivers them."""
    version: int
    """Of the weights that it was collected with."""
    experience: Any
    """`Experience` [T, B, ...]; distributions are parameters."""
    info_spec: Any
    """Specs of the infos, distributions included."""
    episodes: Any
    """`TimeStep`: step types, rewards and env_info as the environments gave them, [T, B, ...], for metrics."""
    buffers: dict[int, Tensor]
    """Buffers that acting changed, from the collector that keeps statistics."""

    def with_distributions(self) -> Experience:
        """The experience with its distributions rebuilt."""
        return with_distributions(self.experience, self.info_spec)


def with_distributions(experience: Experience, info_spec: Any) -> Experience:
    """Experience with its distributions rebuilt."""
    return experience._replace(rollout_info=params_to_distributions(experience.rollout_info, info_spec))


def beside(parts: list[Nest]) -> Nest:
    """Data [T, B, ...] of several collectors as [T, B1 + B2 + ..., ...]."""
    return parts[0] if len(parts) == 1 else nest.map_structure(lambda *tensors: torch.cat(tensors, 1), *parts)


def after(parts: list[Nest]) -> Nest:
    """Data [T1, B, ...], [T2, B, ...] as [T1 + T2 + ..., B, ...]."""
    return parts[0] if len(parts) == 1 else nest.map_structure(lambda *tensors: torch.cat(tensors, 0), *parts)


def steps(data: Nest, begin: int, end: int | None) -> Nest:
    """Some of the steps of data [T, B, ...]; views."""
    return nest.map_structure(lambda tensor: tensor[begin:end], data)


def cut_short(experience: Experience) -> Experience:
    """The steps as ends of episodes by a time limit: what came after them was lost."""
    time_step = experience.time_step
    last = torch.full_like(time_step.step_type, StepType.LAST)
    is_first = time_step.step_type == StepType.FIRST
    return experience._replace(time_step=time_step._replace(step_type=torch.where(is_first, time_step.step_type, last)))


def padded(experience: Experience, length: int) -> Experience:
    """A rollout that ended early, with its last step repeated up to `length`.

    That step was looked at but not acted on. It becomes the end of an episode by a time limit, and so do its copies: nothing
    is learnt from them.
    """
    missing = length - len(experience.step_type)
    if missing == 0:
        return experience
    last = steps(experience, -1, None)
    end = last.time_step._replace(step_type=torch.full_like(last.time_step.step_type, StepType.LAST))
    last = last._replace(time_step=end, rollout_info=_ended(last.rollout_info, end.step_type))
    return after([steps(experience, 0, -1), *[last] * (missing + 1)])


def _ended(info: Any, step_type: Tensor) -> Any:
    """Infos of algorithms and their parts that remember the type of a step, with another one."""
    if not hasattr(info, "_fields"):
        return info
    known = "step_type" in info._fields and isinstance(info.step_type, Tensor)
    return type(info)(
        *(
            step_type if known and name == "step_type" else _ended(value, step_type)
            for name, value in zip(info._fields, info, strict=True)
        )
    )
