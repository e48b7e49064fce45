"""The critic of the Fisher neural sampler (Hu et al. 2018, arXiv:1810.03545): from particles to directions.

It learns f = -(dE/dx + w score) / (2 l2), so that particles descend along -f. See `rein.ops.fisher_critic_loss`.
"""

from typing import Any

import torch
from torch import Tensor

from rein import optimizers
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo
from rein.framework import Algorithm
from rein.nest import Nest
from rein.networks import EncodingNetwork, Network, ReluMLP
from rein.networks.chains import LayerSizes
from rein.networks.layers import identity
from rein.networks.layers.initializers import Activation
from rein.ops import fisher_critic_loss, hutchinson_trace
from rein.specs import TensorSpec


@configurable
class CriticAlgorithm(Algorithm):
    """A network from vectors to vectors with an optimizer of its own."""

    def __init__(
        self,
        input_tensor_spec: TensorSpec,
        output_dim: int | None = None,
        hidden_layers: LayerSizes = (3, 3),
        activation: Activation = torch.relu_,
        net: Network | None = None,
        use_relu_mlp: bool = False,
        use_bn: bool = True,
        optimizer: Any | None = None,
        name: str = "CriticAlgorithm",
    ) -> None:
        """Makes the critic.

        Args:
            input_tensor_spec: a vector of floats.
            output_dim: length of the output; None: that of the input.
            hidden_layers: sizes of the hidden layers of the default network.
            activation: of its hidden layers.
            net: network to use instead of the default one.
            use_relu_mlp: the default network is a `ReluMLP`, whose Jacobian is known exactly; `activation` and `use_bn`
                do not count then.
            use_bn: batch normalization in the hidden layers. It couples the examples of a batch, so that the trace of a
                single one is only approximate.
            optimizer: None: Adam with a learning rate of 1e-3.
            name: name in summaries.
        """
        super().__init__(optimizer=optimizers.Adam(lr=1e-3) if optimizer is None else optimizer, name=name)
        self._use_relu_mlp = use_relu_mlp
        size = input_tensor_spec.numel if output_dim is None else output_dim
        if net is None and use_relu_mlp:
            net = ReluMLP(input_tensor_spec, size, hidden_layers, name=f"{name}.net")
        elif net is None:
            net = EncodingNetwork(
                input_tensor_spec,
                fc_layer_params=hidden_layers,
                activation=activation,
                use_fc_bn=use_bn,
                last_layer_size=size,
                last_activation=identity,
                name=f"{name}.net",
            )
        self._net = net
        # It trains inside the step of another algorithm, which leaves it alone otherwise.
        self._bind_optimizers()

    def reset_net_parameters(self) -> None:
        """Draws the parameters anew."""
        for module in self._net.modules():
            reset = getattr(module, "reset_parameters", None)
            if callable(reset):
                reset()

    def predict_step(self, inputs: Tensor, state: Nest = None, requires_jac_diag: bool = False) -> AlgStep:
        """Directions for [B, D].

        Args:
            inputs: [B, D].
            state: not used.
            requires_jac_diag: the output is a pair, with the diagonals [B, D] of the Jacobian; for `use_relu_mlp` only.
        """
        outputs, _ = self._net(inputs)
        if not requires_jac_diag:
            return AlgStep(output=outputs)
        if not isinstance(self._net, ReluMLP):
            raise ValueError(f"{self.name}: the diagonal of the Jacobian needs a ReluMLP: set use_relu_mlp=True")
        return AlgStep(output=(outputs, self._net.compute_jac_diag(inputs)))

    def improve(self, particles: Tensor, loss_gradient: Tensor, entropy_weight: float, l2_weight: float) -> LossInfo:
        """One gradient step towards the optimal f.

        Args:
            particles: [N, D]; no gradient flows to them.
            loss_gradient: [N, D], dE/dx there.
            entropy_weight: w.
            l2_weight: weight of |f|^2.

        Returns:
            The loss before the step.
        """
        with torch.enable_grad():
            point = particles.detach().requires_grad_()
            if isinstance(self._net, ReluMLP):
                direction, diagonal = self.predict_step(point, requires_jac_diag=True).output
                trace = diagonal.sum(-1)
            else:
                direction = self.predict_step(point).output
                trace = hutchinson_trace(direction, point, torch.randn_like(point))
            loss = fisher_critic_loss(direction, trace, loss_gradient.detach(), entropy_weight, l2_weight)
            info, _ = self.update_with_gradient(LossInfo(scalar_loss=loss))
        return info
