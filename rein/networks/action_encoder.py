"""Actions of any kind as one vector."""

import torch
import torch.nn.functional as F
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.nest import Nest
from rein.networks.network import Network
from rein.specs import BoundedTensorSpec


@configurable
class ActionEncoder(Network):
    """Puts a nest of actions into one vector: discrete ones one-hot, continuous ones as they are, flattened."""

    leading_dims_agnostic = True

    def __init__(self, action_spec: Nest, name: str = "ActionEncoder") -> None:
        """Keeps the specs.

        Args:
            action_spec: nest of bounded specs; one-hot are at most as many values as the largest range in a leaf.
            name: of this network.
        """
        super().__init__(action_spec, name=name)
        for path, spec in nest.flatten_with_paths(action_spec):
            if spec.is_discrete and not isinstance(spec, BoundedTensorSpec):
                raise ValueError(f"{name}: action {path!r} is {spec}: discrete actions need a BoundedTensorSpec")
        self._leaf_specs = nest.flatten(action_spec)

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Maps a nest of [..., *shape] to [..., size]."""
        return torch.cat(
            [self._encoded(leaf, spec) for leaf, spec in zip(nest.flatten(inputs), self._leaf_specs, strict=True)], -1
        ), state

    @staticmethod
    def _encoded(action: Tensor, spec: BoundedTensorSpec) -> Tensor:
        lead = action.shape[: action.ndim - spec.ndim]
        if spec.is_continuous:
            return action.reshape(*lead, -1).to(torch.float32)
        least = torch.tensor(spec.minimum.tolist(), device=action.device)
        count = int((spec.maximum - spec.minimum).max()) + 1
        # Zeros stand for the action before the first, and may be below the least.
        index = (action.long() - least).clamp(0, count - 1)
        return F.one_hot(index, count).reshape(*lead, -1).to(torch.float32)
