"""Normalizing flows: invertible networks from a simple distribution to another (Dinh et al. 2017, arXiv:1605.08803).

A coupling layer leaves a part z_a of its input as it is and shifts and scales the rest by functions of that part:

    x_a = z_a,     x_b = z_b * s(z_a, c) + t(z_a, c),     log |det dx/dz| = sum log s(z_a, c)

with c an optional condition. The parts change their roles from layer to layer.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.nest import Nest
from rein.networks.chains import fc_chain
from rein.networks.layers import FC
from rein.networks.layers.initializers import Activation, Initializer, identity
from rein.networks.network import Network
from rein.specs import TensorSpec

MASKS = ("contiguous", "distributed")
_LARGEST_LOG_SCALE = 5.0


class CouplingLayer(nn.Module):
    """One layer of a flow of vectors."""

    mask: Tensor

    def __init__(
        self,
        mask: Tensor,
        condition_size: int,
        fc_layer_params: Sequence[int],
        activation: Activation,
        kernel_initializer: Initializer | None,
    ) -> None:
        """Makes the networks of scale and shift.

        Args:
            mask: [n], 1 for the part that stays as it is.
            condition_size: numbers in the condition, 0 for none.
            fc_layer_params: sizes of hidden layers.
            activation: of them.
            kernel_initializer: of them; None: by variance scaling.
        """
        super().__init__()
        self.register_buffer("mask", mask, persistent=False)
        size = len(mask)
        self.trunk = fc_chain(size + condition_size, tuple(fc_layer_params), activation, kernel_initializer)
        width = fc_layer_params[-1] if fc_layer_params else size + condition_size
        # Nearly the identity at first.
        self.head = FC(width, 2 * size, identity, kernel_init_gain=0.01)

    def _scale_and_shift(self, kept: Tensor, condition: Tensor | None) -> tuple[Tensor, Tensor]:
        inputs = kept if condition is None else torch.cat([kept, condition.expand(*kept.shape[:-1], -1)], dim=-1)
        log_scale, shift = self.head(self.trunk(inputs)).chunk(2, dim=-1)
        free = 1.0 - self.mask
        return log_scale.clamp(-_LARGEST_LOG_SCALE, _LARGEST_LOG_SCALE) * free, shift * free

    def forward(self, z: Tensor, condition: Tensor | None) -> tuple[Tensor, Tensor]:
        """X [..., n], and log |det dx/dz| [...]."""
        log_scale, shift = self._scale_and_shift(z * self.mask, condition)
        return z * log_scale.exp() + shift, log_scale.sum(-1)

    def inverse(self, x: Tensor, condition: Tensor | None) -> tuple[Tensor, Tensor]:
        """Z [..., n], and log |det dx/dz| [...] there."""
        log_scale, shift = self._scale_and_shift(x * self.mask, condition)
        return (x - shift) * (-log_scale).exp(), log_scale.sum(-1)


@configurable
class RealNVPNetwork(Network):
    """A flow of vectors, maybe with a condition: `x, state = network(z)` or `network((z, condition))`."""

    def __init__(
        self,
        input_tensor_spec: TensorSpec,
        conditional_input_tensor_spec: TensorSpec | None = None,
        fc_layer_params: Sequence[int] = (64,),
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        num_layers: int = 4,
        mask_mode: str = "contiguous",
        sub_dim: int | None = None,
        name: str = "RealNVPNetwork",
    ) -> None:
        """Makes the layers.

        Args:
            input_tensor_spec: a vector of floats of length n >= 2, or of 1 with a condition.
            conditional_input_tensor_spec: a vector of floats; None for no condition.
            fc_layer_params: sizes of the hidden layers of each coupling layer.
            activation: of them.
            kernel_initializer: of them; None: by variance scaling.
            num_layers: coupling layers.
            mask_mode: "contiguous" keeps the first numbers as they are and then the last, "distributed" the even and then
                the odd ones.
            sub_dim: how many numbers the first layer keeps; None is half of them.
            name: of this network.
        """
        has_condition = conditional_input_tensor_spec is not None
        for what, spec in (("input", input_tensor_spec), ("conditional_input", conditional_input_tensor_spec)):
            if spec is not None and (not isinstance(spec, TensorSpec) or spec.ndim != 1 or not spec.is_continuous):
                raise ValueError(f"{name}: {what}_tensor_spec is {spec}: give a vector of floats")
        size = input_tensor_spec.numel
        if size < 2 and not has_condition:
            raise ValueError(
                f"{name}: one number without a condition cannot be split: give a longer vector, or a condition"
            )
        if mask_mode not in MASKS:
            raise ValueError(f"{name}: mask_mode is {mask_mode!r}: choose one of {MASKS}")
        kept = size // 2 if sub_dim is None else sub_dim
        if not (0 <= kept < size or size == 1):
            raise ValueError(f"{name}: sub_dim is {sub_dim}: keep fewer than the {size} numbers")
        whole: Nest = (input_tensor_spec, conditional_input_tensor_spec) if has_condition else input_tensor_spec
        super().__init__(whole, state_spec=(), name=name)
        first = torch.zeros(size)
        if size > 1:
            first[:kept] = 1.0
            if mask_mode == "distributed":
                first = (torch.arange(size) % 2 == 0).float()
        condition_size = 0 if conditional_input_tensor_spec is None else conditional_input_tensor_spec.numel
        self.layers = nn.ModuleList(
            CouplingLayer(
                first if layer % 2 == 0 or size == 1 else 1.0 - first,
                condition_size,
                fc_layer_params,
                activation,
                kernel_initializer,
            )
            for layer in range(num_layers)
        )

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Tensor, Nest]:
        """x, [B, n]."""
        z, condition = inputs if isinstance(inputs, tuple) else (inputs, None)
        return self.transform(z, condition)[0], state

    def transform(self, z: Tensor, condition: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """From the simple distribution.

        Args:
            z: [..., n].
            condition: [..., k], broadcast against the dimensions before the last of `z`.

        Returns:
            x [..., n], and log |det dx/dz| [...].
        """
        total = z.new_zeros(z.shape[:-1])
        for layer in self.layers:
            z, part = layer(z, condition)
            total = total + part
        return z, total

    def inverse(self, x: Tensor, condition: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Back to it: z [..., n], and log |det dx/dz| [...] there; see `transform`."""
        total = x.new_zeros(x.shape[:-1])
        for layer in reversed(self.layers):
            assert isinstance(layer, CouplingLayer)
            x, part = layer.inverse(x, condition)
            total = total + part
        return x, total
