"""A network whose parameters are given as vectors, one for each particle."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.nest import Nest
from rein.networks.chains import Chain
from rein.networks.image_networks import MaxPool2D, conv_params, image_shape
from rein.networks.layers import FC, Conv2D, Flatten, Layer, identity
from rein.networks.layers.conv import pair
from rein.networks.layers.initializers import Activation
from rein.networks.network import Network
from rein.specs import TensorSpec


@configurable
class ParamNetwork(Network):
    """Convolutional and fully connected layers that take their weights from `set_parameters`.

    All particles are evaluated in one batched call, [B, ...] or [B, n, ...] to [B, n, output_dim].
    """

    _params: Tensor

    def __init__(
        self,
        input_tensor_spec: TensorSpec,
        conv_layer_params: Sequence[tuple[Any, ...]] | None = None,
        fc_layer_params: Sequence[int | tuple[Any, ...]] | None = None,
        use_conv_bias: bool = False,
        use_conv_ln: bool = False,
        use_fc_bias: bool = True,
        use_fc_ln: bool = False,
        n_groups: int | None = None,
        activation: Activation = torch.relu_,
        last_layer_size: int | None = None,
        last_activation: Activation = identity,
        last_use_bias: bool = True,
        last_use_ln: bool = False,
        name: str = "ParamNetwork",
    ) -> None:
        """Lays out the parameters, and starts with `n_groups` (or one) particles drawn as usual.

        Args:
            input_tensor_spec: an image or a vector of floats.
            conv_layer_params: see `ImageEncodingNetwork`.
            fc_layer_params: sizes of the layers, or (size, use_bias) pairs.
            use_conv_bias: whether convolutions have a bias.
            use_conv_ln: normalization of each image in the convolutional layers.
            use_fc_bias: whether fully connected layers have a bias, where their pair does not say.
            use_fc_ln: layer normalization in the fully connected layers.
            n_groups: number of particles at first; None: one.
            activation: of all layers but the last.
            last_layer_size: size of the last layer.
            last_activation: of the last layer.
            last_use_bias: whether the last layer has a bias.
            last_use_ln: layer normalization in the last layer.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        layers: list[Layer] = []
        size = input_tensor_spec.numel
        if conv_layer_params:
            channels, height, width = image_shape(input_tensor_spec, name)
            for params in conv_layer_params:
                filters, kernel, strides, padding, pool = conv_params(params, name)
                conv = Conv2D(
                    channels,
                    filters,
                    kernel,
                    activation,
                    strides,
                    padding,
                    use_bias=use_conv_bias,
                    use_ln=use_conv_ln,
                )
                height, width = conv.output_size(height, width)
                layers.append(conv)
                if pool is not None:
                    layers.append(MaxPool2D(pool))
                    height, width = height // pair(pool)[0], width // pair(pool)[1]
                channels = filters
            layers.append(Flatten(3))
            size = channels * height * width
        elif input_tensor_spec.ndim != 1:
            raise ValueError(f"{name}: give conv_layer_params for an input of {input_tensor_spec}")
        for item in fc_layer_params or ():
            width_, *bias = (item,) if isinstance(item, int) else item
            layers.append(FC(size, width_, activation, bias[0] if bias else use_fc_bias, use_ln=use_fc_ln))
            size = width_
        if last_layer_size is not None:
            layers.append(FC(size, last_layer_size, last_activation, last_use_bias, use_ln=last_use_ln))
            size = last_layer_size
        if not any(list(layer.parameters()) for layer in layers):
            raise ValueError(f"{name}: there is no layer with parameters")
        self.output_dim = size
        self.__dict__["_prototypes"] = layers
        self._lengths = [parameter.numel() for parameter in self._parallel(1).parameters()]
        self.set_parameters(self.draw_parameters(n_groups or 1))

    @property
    def param_length(self) -> int:
        """The length of one particle's parameter vector."""
        return sum(self._lengths)

    @property
    def n_groups(self) -> int:
        """The number of particles."""
        return int(self._params.shape[0])

    def _parallel(self, n: int) -> Chain:
        layers: list[nn.Module] = []
        for layer in self.__dict__["_prototypes"]:
            parallel = layer.new_parallel(n)
            layers.append(layer if parallel is None else parallel)
        return Chain(layers)

    def draw_parameters(self, n: int) -> Tensor:
        """Initial parameter vectors [n, param_length], drawn as the layers draw them."""
        rows = []
        for _ in range(n):
            parts: list[Tensor] = []
            for prototype in self.__dict__["_prototypes"]:
                layer = prototype.copy()
                parallel = layer.new_parallel(1)
                if parallel is not None:
                    parallel.load_replica(0, layer)
                    parts += [parameter.detach().flatten() for parameter in parallel.parameters()]
            rows.append(torch.cat(parts))
        return torch.stack(rows)

    def __getstate__(self) -> dict[str, Any]:
        # The vectors may be the result of a computation, whose graph cannot be copied.
        return {**self.__dict__, "_params": self._params.detach()}

    def set_parameters(self, params: Tensor) -> None:
        """Takes the parameters of all particles; gradient flows back to them.

        Args:
            params: [n, param_length], or [param_length] for one particle.
        """
        if params.ndim == 1:
            params = params.unsqueeze(0)
        if params.ndim != 2 or params.shape[1] != self.param_length:
            raise ValueError(
                f"{self.name}: parameters must have shape (n, {self.param_length}), got {tuple(params.shape)}"
            )
        n = int(params.shape[0])
        if "_skeleton" not in self.__dict__ or self.n_groups != n:
            chain = self._parallel(n)
            self.__dict__["_skeleton"] = chain
            self.__dict__["_places"] = [
                (module._parameters, key, parameter.shape)
                for module in chain.modules()
                for key, parameter in module._parameters.items()
                if parameter is not None
            ]
            self._found_specs = None
        # Not through setattr: particles that are a parameter must not become one of this network.
        self.__dict__["_params"] = params

    def forward(self, inputs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Maps [B, ...] or [B, n, ...] to [B, n, output_dim]."""
        n, chain = self.n_groups, self.__dict__["_skeleton"]
        spec = self._input_tensor_spec
        if inputs.ndim == spec.ndim + 1:
            x = inputs.expand(n, *inputs.shape)
        elif inputs.ndim == spec.ndim + 2 and inputs.shape[1] == n:
            x = inputs.transpose(0, 1)
        else:
            raise ValueError(
                f"{self.name}: an input of shape {tuple(inputs.shape)} is neither (B,) + {tuple(spec.shape)} nor "
                f"(B, {n}) + {tuple(spec.shape)}"
            )
        # One split for all: its gradient is one concatenation, where that of each slice would be as long as all.
        parts = torch.split(self._params, self._lengths, 1)
        # Straight into the places that the layers read: `torch.func.functional_call` takes longer than small layers do.
        for (held, key, shape), part in zip(self.__dict__["_places"], parts, strict=True):
            held[key] = part.reshape(shape)
        try:
            y = chain(x)
        finally:
            for held, key, _ in self.__dict__["_places"]:
                held[key] = None
        return y.transpose(0, 1), state
