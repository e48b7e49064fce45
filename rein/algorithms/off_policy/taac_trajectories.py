"""What a temporally abstract policy repeats: a constant, a linear or a quadratic course of the action.

A course is (a, v, u): the action, its first and its second derivative, all scaled to [-1, 1]. As the range has the length 2,
derivatives count twice:

    v' = clip(v + 2 u),    a' = clip(a + 2 v')

A new course is begun by one number per action that the policy samples. With `inverse_mode` it is the action itself, and the
derivatives are those that lead there from the previous action; otherwise it is the highest derivative.
"""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from rein import nest
from rein.nest import Nest
from rein.specs import BoundedTensorSpec


class Tau(NamedTuple):
    """A course of the action, [B, A] each; `()` for derivatives that it does not have."""

    a: Any = ()
    v: Nest = ()
    u: Nest = ()

    def flat(self) -> Tensor:
        """All numbers in one tensor [B, D], as networks see them."""
        return torch.cat(nest.flatten(self), -1)


class Trajectory(Protocol):
    """How courses go on and how they begin."""

    order: int
    """0 constant, 1 linear, 2 quadratic."""

    def go_on(self, tau: Tau) -> Tau:
        """The course one step later."""

    def begin(self, sample: Tensor, tau: Tau) -> Tau:
        """The course that `sample` [B, A] begins after `tau`."""


class ConstantTrajectory:
    """The action stays the same."""

    order = 0

    def go_on(self, tau: Tau) -> Tau:
        """The same action."""
        return tau

    def begin(self, sample: Tensor, tau: Tau) -> Tau:
        """The sampled action."""
        return Tau(a=sample)


class LinearTrajectory:
    """The action moves at a constant speed."""

    order = 1

    def __init__(self, inverse_mode: bool) -> None:
        self._inverse_mode = inverse_mode

    def go_on(self, tau: Tau) -> Tau:
        """Moves on by a' = clip(a + 2 v)."""
        return Tau(a=_clip(tau.a + 2.0 * tau.v), v=tau.v)

    def begin(self, sample: Tensor, tau: Tau) -> Tau:
        """The speed that leads to the sampled action, or the sampled speed."""
        if self._inverse_mode:
            return Tau(a=sample, v=0.5 * (sample - tau.a))
        return self.go_on(Tau(a=tau.a, v=sample))


class QuadraticTrajectory:
    """The speed of the action changes at a constant rate."""

    order = 2

    def __init__(self, inverse_mode: bool) -> None:
        self._inverse_mode = inverse_mode

    def go_on(self, tau: Tau) -> Tau:
        """Moves on by v' = clip(v + 2 u), a' = clip(a + 2 v')."""
        v = _clip(tau.v + 2.0 * tau.u)
        return Tau(a=_clip(tau.a + 2.0 * v), v=v, u=tau.u)

    def begin(self, sample: Tensor, tau: Tau) -> Tau:
        """From rest, the acceleration that leads to the sampled action, or the sampled acceleration."""
        if self._inverse_mode:
            v = 0.5 * (sample - tau.a)
            return Tau(a=sample, v=v, u=0.5 * v)
        return self.go_on(Tau(a=tau.a, v=torch.zeros_like(tau.a), u=sample))


def tau_spec(trajectory: Trajectory, size: int) -> Tau:
    """Specs of a course of actions of `size` numbers."""
    spec = BoundedTensorSpec((size,), torch.float32, -1.0, 1.0)
    return Tau(*[spec] * (trajectory.order + 1))


def _clip(x: Tensor) -> Tensor:
    return x.clamp(-1.0, 1.0)
