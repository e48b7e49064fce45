"""States and infos of SARSA."""

from typing import NamedTuple

import torch
from torch import Tensor

from rein.data_structures import StepType
from rein.nest import Nest


class SarsaState(NamedTuple):
    """The step before (only for sequences of one step), recurrent states, and the exploration noise."""

    prev_observation: Nest = ()
    prev_step_type: Nest = ()
    actor: Nest = ()
    critics: Nest = ()
    target_critics: Nest = ()
    noise: Nest = ()


class SarsaInfo(NamedTuple):
    """What the losses need of a step; an off-policy `rollout_step` fills `action` only."""

    reward: Nest = ()
    step_type: Nest = ()
    discount: Nest = ()
    action_distribution: Nest = ()
    actor_loss: Nest = ()
    critics: Nest = ()
    target_critics: Nest = ()
    neg_entropy: Nest = ()
    action: Nest = ()


class SarsaLossInfo(NamedTuple):
    """Losses by part."""

    actor: Nest = ()
    critic: Nest = ()
    alpha: Nest = ()
    neg_entropy: Nest = ()


def with_steps_before(info: SarsaInfo) -> SarsaInfo:
    """Transitions [2, B] from steps [1, B] whose `critics` are those of the step before."""

    def put(before: Tensor, now: Tensor) -> Tensor:
        return torch.cat([before, now])

    zeros = torch.zeros_like
    return SarsaInfo(
        reward=put(zeros(info.reward), info.reward),
        step_type=put(torch.full_like(info.step_type, StepType.MID), info.step_type),
        discount=put(torch.ones_like(info.discount), info.discount),
        critics=put(info.critics, zeros(info.critics)),
        target_critics=put(zeros(info.target_critics), info.target_critics),
        neg_entropy=put(info.neg_entropy, info.neg_entropy) if isinstance(info.neg_entropy, Tensor) else (),
    )
