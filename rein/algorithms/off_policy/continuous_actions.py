"""Nests of bounded continuous actions: checked once, then clipped, drawn uniformly, and disturbed for exploration."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rein import nest
from rein.nest import Nest
from rein.runtime.schedules import Scheduler, as_scheduler, is_number
from rein.specs import BoundedTensorSpec, TensorSpec


class ContinuousActions(nn.Module):
    """The box that a nest of continuous actions lives in."""

    def __init__(self, action_spec: Nest, user: str) -> None:
        """Checks the specs.

        Args:
            action_spec: nest of bounded continuous specs.
            user: who needs continuous actions, for the message.
        """
        super().__init__()
        self.spec = action_spec
        self._names: list[str] = []
        for path, spec in nest.flatten_with_paths(action_spec):
            where = f"action {path!r}" if path else "the action"
            if not isinstance(spec, BoundedTensorSpec) or not spec.is_continuous:
                raise ValueError(
                    f"{user} needs continuous actions with bounds, but {where} is {spec}: use DqnAlgorithm or SacAlgorithm "
                    "for discrete actions"
                )
            low, high = (torch.tensor(bound.tolist()).expand(spec.shape) for bound in (spec.minimum, spec.maximum))
            if not bool((low < high).all() and torch.isfinite(high - low).all()):
                raise ValueError(f"{user} needs finite bounds, the lower below the upper, but {where} is {spec}")
            name = f"_{len(self._names)}"
            self.register_buffer(f"low{name}", low.to(spec.dtype).clone(), persistent=False)
            self.register_buffer(f"high{name}", high.to(spec.dtype).clone(), persistent=False)
            self._names.append(name)
        if not self._names:
            raise ValueError(f"{user} needs at least one continuous action, but action_spec is {action_spec}")

    def _bounds(self) -> list[tuple[Tensor, Tensor]]:
        buffers = self._buffers
        return [(buffers[f"low{name}"], buffers[f"high{name}"]) for name in self._names]  # type: ignore[misc]

    @property
    def num_elements(self) -> int:
        """Numbers in one action."""
        return sum(spec.numel for spec in nest.flatten(self.spec))

    @property
    def state_spec(self) -> Nest:
        """Unbounded specs of the same shapes, for noise that is carried along."""
        return nest.map_structure(lambda spec: TensorSpec(spec.shape, spec.dtype), self.spec)

    def clip(self, action: Nest) -> Nest:
        """The nest of actions [B, ...] moved into the bounds."""
        leaves = zip(nest.flatten(action), self._bounds(), strict=True)
        return self._pack([torch.clamp(leaf, low, high) for leaf, (low, high) in leaves])

    def uniform(self, batch_size: int) -> Nest:
        """Actions [batch_size, ...] drawn uniformly from the box."""
        return self._pack(
            [
                torch.lerp(low, high, torch.rand(batch_size, *low.shape, dtype=low.dtype, device=low.device))
                for low, high in self._bounds()
            ]
        )

    def normal(self, batch_size: int, stddev: float, limit: float | None = None) -> Nest:
        """Normal noise [batch_size, ...].

        Args:
            batch_size: B.
            stddev: standard deviation, as a share of half of each range.
            limit: where it is cut off on both sides, as a share of half of each range; None does not.
        """
        noises = []
        for low, high in self._bounds():
            noise = torch.randn(batch_size, *low.shape, dtype=low.dtype, device=low.device).mul_(stddev)
            noise = noise if limit is None else noise.clamp_(-limit, limit)
            noises.append(noise * (0.5 * (high - low)))
        return self._pack(noises)

    def _pack(self, leaves: Sequence[Tensor]) -> Nest:
        return leaves[0] if isinstance(self.spec, TensorSpec) else nest.pack_sequence_as(self.spec, list(leaves))


def replace_rows(action: Nest, other: Nest, chance: float) -> Nest:
    """`action` [B, ...] with each row, all parts together, replaced by that of `other` with the given chance."""
    if chance <= 0.0:
        return action
    if chance >= 1.0:
        return other
    first = nest.flatten(action)[0]
    chosen = torch.rand(first.shape[0], device=first.device) < chance
    return nest.map_structure(lambda a, b: torch.where(nest.expand_dims_as(chosen, a), b, a), action, other)


class OrnsteinUhlenbeckNoise:
    """Noise that is correlated in time, x' = (1 - damping) x + N(0, stddev^2): Lillicrap et al. (2016), section 3."""

    def __init__(self, stddev: float | Scheduler, damping: float | Scheduler) -> None:
        """Keeps the settings.

        Args:
            stddev: standard deviation of each increment, in units of the action.
            damping: share of the noise that is lost at every step, in [0, 1].
        """
        self._stddev, self._damping = as_scheduler(stddev), as_scheduler(damping)
        for name, value in (("ou_stddev", stddev), ("ou_damping", damping)):
            if is_number(value) and not value >= 0.0:
                raise ValueError(f"{name} is {value}: it must not be negative")

    def step(self, noise: Nest, action: Nest) -> Nest:
        """The noise [B, ...] that follows `noise`; `()` starts it at zero, shaped like `action`."""
        if nest.is_empty(noise):
            noise = nest.zeros_like(action)
        keep, increments = self.keep(), self.increments(noise)
        return nest.map_structure(lambda x, increment: x * keep + increment, noise, increments)

    def keep(self) -> float:
        """The share of the noise that is left at the next step."""
        return 1.0 - self._damping()

    def increments(self, like: Nest) -> Nest:
        """N(0, stddev^2), what is added at a step, shaped like `like`."""
        stddev = self._stddev()
        return nest.map_structure(lambda x: stddev * torch.randn_like(x), like)
