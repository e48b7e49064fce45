"""States and infos of soft actor-critic."""

from typing import Any, NamedTuple

from rein.nest import Nest


class SacActionState(NamedTuple):
    """Recurrent states of the networks that pick actions."""

    actor_network: Nest = ()
    critic: Nest = ()


class SacCriticState(NamedTuple):
    """Recurrent states of the critics at stored actions, and of the target critics at fresh ones."""

    critics: Nest = ()
    target_critics: Nest = ()


class SacState(NamedTuple):
    """Recurrent states."""

    action: Any = SacActionState()
    actor: Nest = ()
    """Of the critics at fresh actions."""
    critic: Any = SacCriticState()


class SacActorInfo(NamedTuple):
    """For summaries, [B]."""

    actor_loss: Nest = ()
    """Without the entropy term."""
    neg_entropy: Nest = ()
    """log pi, summed over temperatures."""


class SacCriticInfo(NamedTuple):
    """Values of the critics."""

    critics: Nest = ()
    """[B, n, ...] at the stored action."""
    target_critic: Nest = ()
    """[B, ...] of the current policy, by the target critics."""


class SacInfo(NamedTuple):
    """What the losses need of a step; the rollout stores `action` only."""

    reward: Nest = ()
    step_type: Nest = ()
    discount: Nest = ()
    action: Nest = ()
    action_distribution: Nest = ()
    actor: Nest = ()
    """`LossInfo` of the actor, `()` without one."""
    critic: Nest = ()
    alpha: Nest = ()
    """[B] loss of the temperatures."""
    log_pi: Nest = ()
    """[B, K] of the fresh action, one column for each temperature."""
    discounted_return: Nest = ()
    """[B], if the replay buffer records it; for critic losses that use it."""


class SacLossInfo(NamedTuple):
    """For summaries."""

    actor: Nest = ()
    critic: Nest = ()
    alpha: Nest = ()
