"""What projection networks share."""

from collections.abc import Callable
from typing import Any, Self

from torch import Tensor

from rein.distributions import Bounds, Distribution
from rein.nest import Nest
from rein.networks.dry_run import device_of
from rein.networks.network import Network
from rein.specs import BoundedTensorSpec, TensorSpec

ProjectionCtor = Callable[..., Network]


class ProjectionNetwork(Network):
    """A network from vectors [..., input_size] to distributions of actions of one spec."""

    leading_dims_agnostic = True

    def __init__(self, input_size: int, action_spec: TensorSpec, name: str) -> None:
        super().__init__(TensorSpec((input_size,)), name=name)
        if not isinstance(action_spec, TensorSpec):
            raise TypeError(f"{name}: action_spec must be one spec, got {action_spec!r}")
        self.input_size = input_size
        self.action_spec = action_spec

    def distribution(self, x: Tensor) -> Distribution:
        """The distribution for [..., input_size], with batch shape [...]."""
        raise NotImplementedError

    def forward(self, inputs: Tensor, state: Nest = ()) -> tuple[Distribution, Nest]:
        """The distribution for [..., input_size], and the state as it was."""
        return self.distribution(inputs), state

    def _to_action_shape(self, x: Tensor) -> Tensor:
        """From [..., numel] to [..., *action shape]."""
        shape = self.action_spec.shape
        return x if len(shape) == 1 else x.reshape(*x.shape[:-1], *shape)


class BoundedProjectionNetwork(ProjectionNetwork):
    """Keeps the bounds of a continuous action on the device of the parameters."""

    def __init__(self, input_size: int, action_spec: TensorSpec, needs_bounds: bool, name: str) -> None:
        super().__init__(input_size, action_spec, name)
        if not action_spec.is_continuous:
            raise ValueError(f"{name}: needs a continuous action, got {action_spec}")
        if needs_bounds and not isinstance(action_spec, BoundedTensorSpec):
            raise ValueError(
                f"{name}: these settings need an action with bounds, got {action_spec}; give a "
                "BoundedTensorSpec, or set squash_mean=False and scale_distribution=False"
            )
        self._needs_bounds = needs_bounds
        self._bounds: Any = self._make_bounds()

    def _make_bounds(self) -> Bounds | None:
        if not self._needs_bounds:
            return None
        assert isinstance(self.action_spec, BoundedTensorSpec)
        return Bounds.from_spec(self.action_spec, device=device_of(self))

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        result: Self = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._bounds = self._make_bounds()
        return result
