"""A network that learns products of vectors with an inverse Jacobian, for GPVI (Ratzlaff et al. 2021).

The products are linear in the vectors. We deviate by using the odd part of the network, (h(z, v) - h(z, -v)) / 2: the even
part is nothing but error, and one that moves all particles the same way, far along directions that the data leaves free.
"""

from typing import Any

import torch
from torch import Tensor

from rein import optimizers
from rein.config import configurable
from rein.data_structures import AlgStep
from rein.framework import Algorithm
from rein.nest import Nest
from rein.networks import EncodingNetwork, NestConcat
from rein.networks.layers import FC, identity
from rein.networks.layers.initializers import Activation
from rein.specs import TensorSpec


@configurable
class InverseMVPAlgorithm(Algorithm):
    """Predicts y with y^T J(z) = v^T from (z, v). It is trained from outside, on the squared error of that equation."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        hidden_size: int = 100,
        num_hidden_layers: int = 1,
        activation: Activation = torch.relu_,
        optimizer: Any | None = None,
        name: str = "InverseMVPAlgorithm",
    ) -> None:
        """Makes the network.

        Args:
            input_dim: length K of the part of z that J depends on.
            output_dim: length D of v and y, at least K.
            hidden_size: width of the layer that z and v pass through each, before they meet.
            num_hidden_layers: layers of twice that width after it.
            activation: of the hidden layers.
            optimizer: None: Adam with a learning rate of 1e-3.
            name: name in summaries.
        """
        if input_dim > output_dim:
            raise ValueError(f"{name}: input_dim is {input_dim}, more than output_dim {output_dim}: lower it")
        super().__init__(optimizer=optimizers.Adam(lr=1e-3) if optimizer is None else optimizer, name=name)
        self._z_dim, self._vec_dim = input_dim, output_dim
        self._net = EncodingNetwork(
            (TensorSpec((input_dim,)), TensorSpec((output_dim,))),
            input_preprocessors=(FC(input_dim, hidden_size), FC(output_dim, hidden_size)),
            preprocessing_combiner=NestConcat(),
            fc_layer_params=(2 * hidden_size,) * num_hidden_layers,
            activation=activation,
            last_layer_size=output_dim,
            last_activation=identity,
            name=f"{name}.net",
        )
        self._bind_optimizers()

    def predict_step(self, inputs: tuple[Tensor, Tensor], state: Nest = None) -> AlgStep:
        """Predicts products.

        Args:
            inputs: z of [N2, K] or longer rows, of which the first K elements are used, and v of [N2, D] or [N2, N, D].
            state: not used.

        Returns:
            The output is a pair: y of [N2, D] or [N2 * N, D], and the [N2, K] or [N2 * N, K] part of z it is for.
        """
        z, vec = inputs
        z = z[:, : self._z_dim]
        if vec.ndim == 3:
            z = z.repeat_interleave(vec.shape[1], 0)
            vec = vec.flatten(0, 1)
        product, _ = self._net((z, vec))
        opposite, _ = self._net((z, -vec))
        return AlgStep(output=(0.5 * (product - opposite), z))
