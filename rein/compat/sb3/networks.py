"""Networks and optimizers from `policy`, `policy_kwargs` and `learning_rate`."""

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import rein.optimizers
from rein.compat.sb3.extractors import extractor_inputs
from rein.compat.sb3.keywords import PolicyOptions, number, refuse
from rein.networks import CriticNetwork, ValueNetwork
from rein.networks.layers import Cast, Scale, torch_linear_init
from rein.networks.layers.layer import Layer
from rein.networks.spec_encoders import NATURE_LAYERS, SpecEncoder

_IMAGE_FEATURES = 512


def network_inputs(model: Any, options: PolicyOptions) -> dict[str, Any]:
    """Arguments of networks that say what they do with images; other inputs get an encoder that fits them."""
    if options.extractor is not None:
        return extractor_inputs(model.observation_space, options.extractor, options.extractor_kwargs)
    if options.kind != "CnnPolicy":
        return {}
    scaled = SpecEncoder([Cast(), Scale(1 / 255)], "image")
    return {"input_preprocessors": scaled, "conv_layer_params": NATURE_LAYERS}


def layer_sizes(options: PolicyOptions, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Hidden layers: after convolutions of our own, one more that makes a vector of them."""
    return (_IMAGE_FEATURES, *sizes) if options.kind == "CnnPolicy" and options.extractor is None else sizes


def hidden_activation(options: PolicyOptions) -> Any:
    """That of the hidden layers; convolutions have rectifiers, and all layers of a network the same."""
    return torch.relu if options.kind == "CnnPolicy" and not options.actor else options.activation


def actor_network(model: Any, options: PolicyOptions, network: Any, **more: Any) -> Any:
    """Makes a network from observations to actions, or their values.

    Args:
        model: with its spaces.
        options: of its policy.
        network: its class.
        **more: further arguments of it.
    """
    layers = layer_sizes(options, options.actor)
    return partial(
        network, fc_layer_params=layers, activation=hidden_activation(options), **network_inputs(model, options), **more
    )


def value_network(model: Any, options: PolicyOptions, **more: Any) -> Any:
    """Makes the network of the value of an observation.

    Args:
        model: with its spaces.
        options: of its policy.
        **more: further arguments of the network.
    """
    return partial(
        _value_network,
        nn.init.orthogonal_ if options.ortho_init else None,
        fc_layer_params=layer_sizes(options, options.critic),
        activation=hidden_activation(options),
        **network_inputs(model, options),
        **more,
    )


def _value_network(last_initializer: Any, **arguments: Any) -> ValueNetwork:
    """A network whose last layer begins as large as theirs, and not, as ours does, with values near 0."""
    network = ValueNetwork(**arguments)
    trunk: Any = network.trunk
    *_, last = trunk.layers.children()
    if last_initializer is None:
        torch_linear_init(last)
    else:
        last_initializer(last.weight)
    return network


class UnitActions(Layer):
    """Actions within their bounds as numbers in [-1, 1], which is how critics of Stable-Baselines3 see them."""

    def __init__(self, low: NDArray[Any], high: NDArray[Any]) -> None:
        """Keeps the bounds.

        Args:
            low: of each action.
            high: of each action.
        """
        super().__init__()
        self.center, self.half_width = (_constant((high + sign * low) / 2) for sign in (1, -1))

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., *shape] onto [-1, 1]."""
        return (x - self._like(x, self.center)) / self._like(x, self.half_width)

    @staticmethod
    def _like(x: Tensor, value: float | list[Any]) -> Tensor | float:
        return value if isinstance(value, float) else x.new_tensor(value)


def _constant(values: NDArray[Any]) -> float | list[Any]:
    """One number where all are the same, which costs no tensor in each call."""
    return float(values.flat[0]) if np.ptp(values) == 0 else values.tolist()


def critic_network(model: Any, options: PolicyOptions) -> Any:
    """Makes a network of the value of an observation and an action, which it sees in [-1, 1]."""
    layers = layer_sizes(options, options.critic)
    low, high = model.action_space.low, model.action_space.high
    network: Any = CriticNetwork
    if np.isfinite([low, high]).all() and not ((low == -1) & (high == 1)).all():
        network = partial(CriticNetwork, action_input_processors=UnitActions(low, high))
    if options.kind != "CnnPolicy":
        return partial(network, joint_fc_layer_params=layers, activation=hidden_activation(options))
    return partial(
        network,
        observation_input_processors=network_inputs(model, options)["input_preprocessors"],
        observation_conv_layer_params=NATURE_LAYERS,
        observation_fc_layer_params=layers[:1],
        joint_fc_layer_params=layers[1:],
        activation=hidden_activation(options),
    )


def make_optimizer(model: Any, options: PolicyOptions, limit: float | None, default: Any = None, **more: Any) -> Any:
    """The optimizer that the keywords describe, once for each group of parameters.

    Args:
        model: with its learning rate.
        options: of its policy, which may name an optimizer.
        limit: of the norm of all gradients; None or 0 is none.
        default: makes one where the options name none; None is Adam.
        **more: arguments of the default.
    """
    owner = type(model).__name__
    rate = number(owner, "learning_rate", model.learning_rate, model.clock)
    clipping = {} if not limit else {"gradient_clipping": float(limit), "clip_by_global_norm": True}
    made = (
        default if default is not None and not options.names_optimizer else getattr(rein.optimizers, options.optimizer)
    )
    arguments = {**(more if not options.names_optimizer else {}), **options.optimizer_kwargs}
    try:
        return made(lr=rate, **clipping, **arguments)
    except TypeError as error:
        refuse(f"{owner}, policy_kwargs", "optimizer_kwargs", options.optimizer_kwargs, str(error))
