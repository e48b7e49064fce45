"""The critic of multi-dimensional Q-learning: a policy and values from one factored network.

Two forms of Q(s, a) for a continuous action of d dimensions, each in {1..K} bins:

- free form: an ordinary critic of (s, a), any action.
- advantage form: q_i(s, a_1..a_i) for i = 1..d, each a row of K numbers given the dimensions before it, with
  Q(s, a) = V(s) + sum_i [q_i(s, a_1..a_i) - alpha log mean_k exp(q_i(s, a_1..a_i-1, k) / alpha)].

The second form makes the maximum-entropy policy pi(a|s) = prod_i softmax(q_i / alpha) exact and cheap to sample,
one dimension after another.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.nest import Nest
from rein.networks.chains import LayerSizes, small_uniform
from rein.networks.critic_networks import CriticNetwork
from rein.networks.encoding_networks import EncodingNetwork
from rein.networks.layers import identity
from rein.networks.layers.initializers import Activation, Initializer
from rein.networks.network import Network
from rein.specs import BoundedTensorSpec, TensorSpec


@configurable
class ActionQuantizer:
    """Evenly spaced values of each dimension of a continuous action."""

    def __init__(self, action_spec: BoundedTensorSpec, action_bins: int = 7) -> None:
        """Computes the values.

        Args:
            action_spec: [d] continuous action with bounds.
            action_bins: values of each dimension, the bounds included; at least 2.
        """
        if not isinstance(action_spec, BoundedTensorSpec) or not action_spec.is_continuous:
            raise ValueError(f"ActionQuantizer: needs a continuous action with bounds, got {action_spec}")
        if action_spec.ndim != 1 or action_bins < 2:
            raise ValueError(
                f"ActionQuantizer: needs a vector and at least 2 bins, got {action_spec} and {action_bins}"
            )
        self.action_spec = action_spec
        self.action_bins = action_bins
        low, high = (torch.tensor(x, dtype=torch.float32) for x in (action_spec.minimum, action_spec.maximum))
        self._low = low.expand(action_spec.shape).clone()
        self._step = (high - low).expand(action_spec.shape) / (action_bins - 1)

    def to_action(self, index: Tensor, dim: int) -> Tensor:
        """The values [...] of bins `index` [...] of dimension `dim`."""
        return self._low[dim].to(index.device) + index * self._step[dim].to(index.device)

    def to_index(self, action: Tensor) -> Tensor:
        """The nearest bins [..., d] of actions [..., d]."""
        low, step = self._low.to(action.device), self._step.to(action.device)
        return ((action - low) / step).round().long().clamp(0, self.action_bins - 1)


class MdqAdvantage(NamedTuple):
    """The advantage form at given actions."""

    critic: Tensor
    """[B, num_critic_replicas] values."""
    log_pi: Tensor
    """[B] log-probability of the (quantized) actions under the policy."""
    kl_wrt_prior: Tensor
    """[B] divergence of the policy from the uniform one along these actions, in nats."""


class MdqAction(NamedTuple):
    """A choice of the policy."""

    action: Tensor
    """[B, d] continuous actions, each at the centre of a bin."""
    log_pi: Tensor
    """[B] their log-probability."""
    kl_wrt_prior: Tensor
    """[B] divergence of the policy from the uniform one along the choice, in nats."""


@configurable
class MdqCriticNetwork(Network):
    """Critics of multi-dimensional Q-learning; calling the network evaluates the free form."""

    def __init__(
        self,
        input_tensor_spec: tuple[TensorSpec, BoundedTensorSpec],
        action_qt: ActionQuantizer | None = None,
        num_critic_replicas: int = 2,
        obs_encoding_layer_params: LayerSizes = None,
        pre_encoding_layer_params: LayerSizes = None,
        mid_encoding_layer_params: LayerSizes = None,
        post_encoding_layer_params: LayerSizes = None,
        free_form_fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        name: str = "MdqCriticNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: (observation_spec, action_spec): a vector, and a continuous vector with bounds.
            action_qt: the bins; None: `ActionQuantizer` with its defaults.
            num_critic_replicas: critics of each form.
            obs_encoding_layer_params: sizes of the layers of the observation, shared by all dimensions.
            pre_encoding_layer_params: sizes of the layers of the dimensions chosen before.
            mid_encoding_layer_params: sizes of the layers of both together.
            post_encoding_layer_params: sizes of the layers of each replica, before its row of bins.
            free_form_fc_layer_params: sizes of the layers of the free form.
            activation: of the hidden layers.
            kernel_initializer: of the hidden layers; None: by variance scaling.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        observation_spec, action_spec = input_tensor_spec
        self.quantizer = ActionQuantizer(action_spec) if action_qt is None else action_qt
        if self.quantizer.action_spec.shape != action_spec.shape:
            raise ValueError(f"{name}: action_qt is for {self.quantizer.action_spec}, not {action_spec}")
        self.num_critic_replicas = num_critic_replicas
        self._num_dims = action_spec.numel
        self._init = {"activation": activation, "kernel_initializer": kernel_initializer}

        self.observation_encoder = EncodingNetwork(
            observation_spec,
            fc_layer_params=obs_encoding_layer_params,
            activation=activation,
            kernel_initializer=kernel_initializer,
            name=f"{name}.observation",
        )
        feature_spec = self.observation_encoder.output_spec
        self.value = self._replicated(feature_spec, post_encoding_layer_params, 1)
        self.prefix_encoders = nn.ModuleList()
        self.mid_encoders = nn.ModuleList()
        self.rows = nn.ModuleList()
        for i in range(self._num_dims):
            size = int(feature_spec.shape[0])
            if i > 0:
                prefix = EncodingNetwork(
                    TensorSpec((i,)), fc_layer_params=pre_encoding_layer_params, activation=activation
                )
                self.prefix_encoders.append(prefix)
                size += int(prefix.output_spec.shape[0])
            mid = EncodingNetwork(TensorSpec((size,)), fc_layer_params=mid_encoding_layer_params, activation=activation)
            self.mid_encoders.append(mid)
            bins = self.quantizer.action_bins
            self.rows.append(self._replicated(mid.output_spec, post_encoding_layer_params, bins))
        self.free_form = CriticNetwork(
            input_tensor_spec,
            joint_fc_layer_params=free_form_fc_layer_params,
            activation=activation,
            kernel_initializer=kernel_initializer,
            name=f"{name}.free_form",
        ).make_parallel(num_critic_replicas)

    def _replicated(self, spec: TensorSpec, hidden: LayerSizes, outputs: int) -> Network:
        return EncodingNetwork(
            spec,
            fc_layer_params=hidden,
            last_layer_size=outputs,
            last_activation=identity,
            last_kernel_initializer=small_uniform,
            **self._init,  # type: ignore[arg-type]
        ).make_parallel(self.num_critic_replicas)

    def forward(self, inputs: tuple[Tensor, Tensor], state: Nest = ()) -> tuple[Tensor, Nest]:
        """Free-form values [B, num_critic_replicas] of (observation, action)."""
        return self.free_form(inputs)[0], state

    def _row(self, feature: Tensor, action: Tensor, dim: int) -> Tensor:
        """q_i for all bins of dimension `dim`, [B, num_critic_replicas, K], given the dimensions before."""
        x = feature
        if dim > 0:
            prefix = self.prefix_encoders[dim - 1](action[..., :dim])[0]
            x = torch.cat((feature, prefix), -1)
        return self.rows[dim](self.mid_encoders[dim](x)[0])[0]

    def _policy(self, row: Tensor, alpha: Tensor | float) -> tuple[Tensor, Tensor]:
        """Log-probabilities [B, K] of a dimension from the mean of the critics, and the KL [B] from uniform."""
        log_pi = torch.log_softmax(row.mean(1) / alpha, -1)
        prior = -torch.log(torch.tensor(float(row.shape[-1])))
        return log_pi, (log_pi.exp() * (log_pi - prior)).sum(-1)

    def adv_form(self, inputs: tuple[Tensor, Tensor], alpha: Tensor | float) -> MdqAdvantage:
        """The advantage form at given actions, each moved to its nearest bin.

        Args:
            inputs: (observation, action), [B, ...] each.
            alpha: temperature of the policy.
        """
        observation, action = inputs
        feature = self.observation_encoder(observation)[0]
        index = self.quantizer.to_index(action)
        critic = self.value(feature)[0].squeeze(-1)
        log_pi, kl = critic.new_zeros(critic.shape[0]), critic.new_zeros(critic.shape[0])
        snapped = torch.stack([self.quantizer.to_action(index[:, i], i) for i in range(self._num_dims)], -1)
        for i in range(self._num_dims):
            row = self._row(feature, snapped, i)
            chosen = index[:, i, None]
            log_policy, step_kl = self._policy(row, alpha)
            bins = float(row.shape[-1])
            soft_max = alpha * (torch.logsumexp(row / alpha, -1) - torch.log(torch.tensor(bins)))
            taken = row.gather(-1, chosen[:, None].expand(-1, row.shape[1], 1)).squeeze(-1)
            critic = critic + taken - soft_max
            log_pi = log_pi + log_policy.gather(-1, chosen).squeeze(-1)
            kl = kl + step_kl
        return MdqAdvantage(critic, log_pi, kl)

    def get_action(self, observation: Tensor, alpha: Tensor | float, greedy: bool = False) -> MdqAction:
        """Samples the policy, one dimension after another.

        Args:
            observation: [B, ...].
            alpha: temperature of the policy.
            greedy: take the likeliest value of each dimension instead.
        """
        feature = self.observation_encoder(observation)[0]
        batch = feature.shape[0]
        action = feature.new_zeros(batch, self._num_dims)
        log_pi, kl = feature.new_zeros(batch), feature.new_zeros(batch)
        for i in range(self._num_dims):
            log_policy, step_kl = self._policy(self._row(feature, action, i), alpha)
            if greedy:
                chosen = log_policy.argmax(-1)
            else:
                chosen = torch.multinomial(log_policy.detach().exp(), 1).squeeze(-1)
            value = self.quantizer.to_action(chosen, i)
            action = torch.cat((action[:, :i], value[:, None], action[:, i + 1 :]), -1)
            log_pi = log_pi + log_policy.gather(-1, chosen[:, None]).squeeze(-1)
            kl = kl + step_kl
        return MdqAction(action, log_pi, kl)

    def get_uniform_prior_logpi(self, inputs: Tensor) -> Tensor:
        """Log-probability [B] of any action under the uniform policy.

        Args:
            inputs: [B, ...], for the batch size.
        """
        bins = torch.tensor(float(self.quantizer.action_bins), device=inputs.device)
        return -(self._num_dims * torch.log(bins)).expand(inputs.shape[0])
