"""States and infos of temporally abstract actor-critic."""

from typing import Any, NamedTuple

from rein.nest import Nest


class TaacState(NamedTuple):
    """What the policy may repeat."""

    tau: Any = ()
    """The course of the previous action."""
    repeats: Nest = ()
    """int64 [B], how many steps in a row it was repeated."""


class Distributions(NamedTuple):
    """The two stages of the policy."""

    beta_dist: Any = ()
    """Whether to repeat (0) or to begin anew (1)."""
    b1_a_dist: Any = ()
    """The new action."""


class ActPredOutput(NamedTuple):
    """What the policy does at a step."""

    dists: Any = ()
    b: Any = ()
    """int64 [B], 0 repeats, 1 begins anew."""
    actor_a: Any = ()
    """[B, A] sample of the first stage, in [-1, 1]."""
    taus: Any = ()
    """The repeated and the new course."""
    q_values2: Any = ()
    """[B, 2] values of both courses."""


class TaacActorInfo(NamedTuple):
    """For summaries, [B]."""

    actor_loss: Nest = ()
    b1_a_entropy: Nest = ()
    beta_entropy: Nest = ()
    adv: Nest = ()
    """Q of the new course minus Q of the repeated one."""
    value_loss: Nest = ()


class TaacCriticInfo(NamedTuple):
    """Values of the critics."""

    critics: Nest = ()
    """[B, n, ...] of the stored course."""
    target_critic: Nest = ()
    """[B, ...] of the current policy, by the target critics."""
    value_loss: Nest = ()


class TaacInfo(NamedTuple):
    """What the losses need of a step; the rollout stores `tau`, `prev_tau`, `rollout_b` and `repeats`."""

    reward: Nest = ()
    step_type: Nest = ()
    tau: Any = ()
    """The course that the rollout took."""
    prev_tau: Any = ()
    """The course before."""
    discount: Nest = ()
    action_distribution: Nest = ()
    rollout_b: Nest = ()
    """int64 [B], what the rollout decided."""
    b: Nest = ()
    """int64 [B], what the current policy decides."""
    actor: Any = ()
    critic: Any = ()
    alpha: Nest = ()
    repeats: Nest = ()


class TaacLossInfo(NamedTuple):
    """For summaries."""

    actor: Nest = ()
    critic: Nest = ()
    alpha: Nest = ()
