"""A multilayer perceptron with relu whose Jacobian is computed in closed form."""

import itertools

import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.nest import Nest
from rein.networks.chains import LayerSizes, vector_size
from rein.networks.layers import FC
from rein.networks.network import Network
from rein.specs import TensorSpec


@configurable
class ReluMLP(Network):
    """Fully connected layers with relu, [B, input_size] to [B, output_size], and products with its Jacobian.

    The Jacobian of such a network is W_L D_{L-1} W_{L-1} ... D_1 W_1 with D_i the 0/1 masks of active units, so
    products with it are a pass through the masked layers. Gradient flows through all results.
    """

    leading_dims_agnostic = True

    def __init__(
        self,
        input_tensor_spec: TensorSpec,
        output_size: int | None = None,
        hidden_layers: LayerSizes = (64, 64),
        use_bn: bool = False,
        name: str = "ReluMLP",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: a vector of floats.
            output_size: length of the output; None: that of the input.
            hidden_layers: sizes of the hidden layers; without any the network is linear.
            use_bn: must be False: a batch-normalized layer has no Jacobian for a single example.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        if use_bn:
            raise ValueError(f"{name}: the Jacobian is not defined with batch normalization; use_bn must be False")
        self.input_size = vector_size(input_tensor_spec, name)
        self.output_size = self.input_size if output_size is None else output_size
        sizes = [self.input_size, *(hidden_layers or ())]
        self.hidden = nn.ModuleList(FC(into, out, torch.relu_) for into, out in itertools.pairwise(sizes))
        self.last = FC(sizes[-1], self.output_size)

    def forward(self, inputs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Maps [..., input_size] to [..., output_size]."""
        x = inputs
        for layer in self.hidden:
            x = layer(x)
        return self.last(x), state

    def forward_with_masks(self, inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The output, and for each hidden layer the [B, size] mask of its active units."""
        x, masks = inputs, []
        for layer in self.hidden:
            x = layer(x)
            masks.append((x > 0).to(x.dtype))
        return self.last(x), masks

    def compute_jac(self, inputs: Tensor, outputs: slice = slice(None)) -> Tensor:
        """The Jacobian at [B, input_size].

        Args:
            inputs: [B, input_size].
            outputs: which outputs to differentiate; all by default.

        Returns:
            [B, number of outputs, input_size].
        """
        _, masks = self.forward_with_masks(inputs)
        weight = self.last.weight[outputs]
        if not masks:
            return weight.expand(*inputs.shape[:-1], *weight.shape)
        jacobian = weight * masks[-1].unsqueeze(-2)
        for layer, mask in zip(reversed(self.hidden[1:]), reversed(masks[:-1]), strict=True):
            jacobian = (jacobian @ layer.weight) * mask.unsqueeze(-2)  # type: ignore[operator]
        return jacobian @ self.hidden[0].weight  # type: ignore[operator]

    def compute_jac_diag(self, inputs: Tensor) -> Tensor:
        """The diagonal of the Jacobian, [B, size]; input and output have one size."""
        if self.input_size != self.output_size:
            raise ValueError(f"{self.name}: a Jacobian of {self.output_size}x{self.input_size} has no diagonal")
        if len(self.hidden) != 1:
            return self.compute_jac(inputs).diagonal(dim1=-2, dim2=-1)
        # One hidden layer: diag_i = sum_h W2[i, h] mask[h] W1[h, i], a single product.
        _, (mask,) = self.forward_with_masks(inputs)
        return mask @ (self.last.weight.t() * self.hidden[0].weight)  # type: ignore[operator]

    def compute_vjp(self, inputs: Tensor, vec: Tensor, outputs: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """The product of a vector with the Jacobian, or with the rows of it that belong to some outputs.

        Args:
            inputs: [B, input_size].
            vec: [B, number of outputs]; its leading dimensions may be any that broadcast with those of `inputs`.
            outputs: which outputs `vec` belongs to; all by default.

        Returns:
            ``vec^T J`` of [B, input_size], and all outputs [B, output_size].
        """
        values, masks = self.forward_with_masks(inputs)
        product = vec @ self.last.weight[outputs]
        for layer, mask in zip(reversed(self.hidden), reversed(masks), strict=True):
            product = (product * mask) @ layer.weight  # type: ignore[operator]
        return product, values

    def compute_jvp(self, inputs: Tensor, vec: Tensor, outputs: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """The product of the Jacobian, or of the rows of it that belong to some outputs, with a vector.

        Args:
            inputs: [B, input_size].
            vec: [B, input_size].
            outputs: which outputs to differentiate; all by default.

        Returns:
            ``J vec`` of [B, number of outputs], and all outputs [B, output_size].
        """
        values, masks = self.forward_with_masks(inputs)
        product = vec
        for layer, mask in zip(self.hidden, masks, strict=True):
            product = (product @ layer.weight.t()) * mask  # type: ignore[operator]
        return product @ self.last.weight[outputs].t(), values
