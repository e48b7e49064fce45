"""Time steps by hand, and networks of one weight."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rein.data_structures import TimeStep
from rein.networks import Network
from rein.specs import TensorSpec


class Scaled(Network):
    """A weight times the (joined) input, cut or repeated to `outputs` numbers."""

    def __init__(self, input_tensor_spec: Any, weight: float = 1.0, name: str = "scaled") -> None:
        super().__init__(input_tensor_spec, name=name)
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, inputs: Tensor, state: Any = ()) -> tuple[Tensor, Any]:
        return self.weight * inputs, state


class OfFirst(Network):
    """A weight times the first of two inputs, plus the second's first element."""

    def __init__(self, weight: float, sizes: tuple[int, int]) -> None:
        super().__init__([TensorSpec((size,)) for size in sizes], name="of_first")
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, inputs: Any, state: Any = ()) -> tuple[Tensor, Any]:
        first, second = inputs
        return self.weight * first + second[:, :1], state


class Networks:
    scaled, of_first = Scaled, OfFirst


@pytest.fixture
def networks() -> type[Networks]:
    return Networks


@pytest.fixture
def step() -> Callable[..., TimeStep]:
    """Makes a time step; step types are 0 FIRST, 1 MID, 2 LAST."""

    def make(observation: Any, prev_action: Any = (), step_type: Any = None) -> TimeStep:
        leaf = observation[0] if isinstance(observation, list) and isinstance(observation[0], Tensor) else observation
        size = leaf.shape[:1] if step_type is None else torch.tensor(step_type).shape
        return TimeStep(
            step_type=torch.ones(size, dtype=torch.int32)
            if step_type is None
            else torch.tensor(step_type, dtype=torch.int32),
            reward=torch.zeros(size),
            discount=torch.ones(size),
            observation=observation,
            prev_action=prev_action,
            env_id=torch.zeros(size, dtype=torch.int64),
        )

    return make
