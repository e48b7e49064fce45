"""Variational auto-encoder (Kingma & Welling 2014, arXiv:1312.6114), with a weight of the KL (Higgins et al. 2017).

    log p(x) >= E_{z ~ q(z|x)} log p(x|z) - beta KL(q(z|x) || p(z))

This is the encoder q and the second term. Whoever uses it decodes z, and adds the reconstruction to `info.loss`: see
`AutoEncoder`.

Without a prior network p(z) = N(0, I), and with m, v the outputs of the encoder

    q = N(m, e^v),          KL = 1/2 sum (m^2 + e^v - 1 - v).

With one, p(z|c) = N(p, e^w) depends on a condition c, and the encoder gives residuals,

    q = N(p + m, e^(w + v)),  KL = 1/2 sum (m^2 / e^w + e^v - 1 - v),

which is exact; the prior is trained by it too. With a target for the KL, beta grows while the KL is above it:

    L(log beta) = log beta (target - KL).
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.data_structures import AlgStep
from rein.framework import Algorithm
from rein.nest import Nest
from rein.networks import EncodingNetwork, NestConcat, Network
from rein.networks.layers import FC
from rein.ops import residual_gaussian_kl, standard_normal_kl
from rein.specs import TensorSpec


class VAEInfo(NamedTuple):
    """What the loss needs of a step."""

    kld: Nest = ()
    """[B] the KL, before beta."""
    z_std: Nest = ()
    """[B, z_dim] deviations of the posterior; `()` if it is discrete."""
    loss: Nest = ()
    """[B] beta times the KL, and the loss of beta if it is tuned."""
    beta_loss: Nest = ()
    """[B] the loss of beta; `()` if it is not tuned."""
    beta: Nest = ()
    """[B] beta; `()` if it is not tuned."""


class VAEOutput(NamedTuple):
    """A code."""

    z: Nest = ()
    """A sample of the posterior, with gradient."""
    z_mode: Nest = ()
    """Its mode, for who wants a code without noise."""
    z_std: Nest = ()
    """Its deviations; `()` if it is discrete."""


class LatentBottleneck(Algorithm):
    """What encoders with a KL loss share: the networks, the optional prior, and the weight of the KL.

    Subclasses give the posterior by `_posterior`.
    """

    def _take_networks(self, network: Network, prior: Network | None, prior_size: int) -> int:
        """Keeps the networks, and returns the size of the encoder's output.

        Args:
            network: from observations to a vector.
            prior: from conditions to a vector of `prior_size`; None for a fixed prior.
            prior_size: numbers that describe the prior.
        """
        if prior is not None and prior.output_spec != TensorSpec((prior_size,)):
            raise ValueError(
                f"{self.name}: the prior network gives {prior.output_spec}: its last layer must have size {prior_size} and "
                "no activation"
            )
        for one in (network, prior):
            if one is not None and one.is_rnn:
                raise ValueError(f"{self.name}: {one.name} has a state: put recurrent layers before the auto-encoder")
        spec = network.output_spec
        if not isinstance(spec, TensorSpec) or spec.ndim != 1:
            raise ValueError(f"{self.name}: {network.name} gives {spec}: it must give one vector")
        self._network = network
        self._prior_network = prior
        return spec.numel

    def _take_beta(self, beta: float, target_kld: float | None, optimizer: Any | None) -> None:
        """Keeps the weight of the KL, which is tuned if there is a target.

        Args:
            beta: the weight at the start.
            target_kld: in nats.
            optimizer: of the logarithm of the weight.
        """
        if beta < 0:
            raise ValueError(f"{self.name}: beta is {beta}: it must not be negative")
        if target_kld is not None:
            if beta == 0:
                raise ValueError(
                    f"{self.name}: beta is 0 and there is a target for the KL: beta is tuned by its logarithm, so start "
                    "from a small positive one, such as 1e-3"
                )
            if target_kld < 0:
                raise ValueError(f"{self.name}: the target for the KL is {target_kld}: it must not be negative")
        log_beta = torch.tensor(-math.inf if beta == 0 else math.log(beta))
        self._log_beta = nn.Parameter(log_beta, requires_grad=target_kld is not None)
        self._target_kld = target_kld
        if optimizer is not None:
            self.add_optimizer(optimizer, [self._log_beta])

    @property
    def output_spec(self) -> TensorSpec:
        """Spec of `z` and of `z_mode`."""
        raise NotImplementedError

    @property
    def beta(self) -> Tensor:
        """The weight of the KL now, a scalar without gradient."""
        return self._log_beta.detach().exp()

    # All three steps give the same; a code without noise is `z_mode`.

    def predict_step(self, inputs: Nest, state: Nest = ()) -> AlgStep:
        """See `train_step`."""
        return self.train_step(inputs, state)

    def rollout_step(self, inputs: Nest, state: Nest = ()) -> AlgStep:
        """See `train_step`."""
        return self.train_step(inputs, state)

    def train_step(self, inputs: Nest, state: Nest = (), rollout_info: Nest = ()) -> AlgStep:
        """A code and its KL.

        Args:
            inputs: what to encode, [B, ...]; with a prior network, a tuple of its input and that.
            state: `()`.
            rollout_info: not used.

        Returns:
            `output` is a `VAEOutput`, `info` a `VAEInfo`.
        """
        if self._prior_network is None:
            output, kld = self._posterior(self._network(inputs)[0], None)
        else:
            condition, observation = inputs
            prior, _ = self._prior_network(condition)
            features, _ = self._network((condition, observation, prior))
            output, kld = self._posterior(features, prior)
        return AlgStep(output=output, state=state, info=self._info(output, kld))

    def _posterior(self, features: Tensor, prior: Tensor | None) -> tuple[VAEOutput, Tensor]:
        """The code [B, ...] and its KL [B], from outputs of the networks."""
        raise NotImplementedError

    def _info(self, output: VAEOutput, kld: Tensor) -> VAEInfo:
        info = VAEInfo(kld=kld, z_std=output.z_std, loss=self.beta * kld)
        if self._target_kld is None:
            return info
        beta_loss = self._log_beta * (self._target_kld - kld).detach()
        return info._replace(loss=info.loss + beta_loss, beta_loss=beta_loss, beta=self.beta.expand_as(kld))


@configurable
class VariationalAutoEncoder(LatentBottleneck):
    """Encodes into a Gaussian with independent dimensions, draws from it, and gives its KL to the prior."""

    is_compilable = True

    def __init__(
        self,
        z_dim: int,
        input_tensor_spec: Nest | None = None,
        preprocess_network: Network | None = None,
        z_prior_network: Network | None = None,
        beta: float = 1.0,
        target_kld_per_dim: float | None = None,
        beta_optimizer: Any | None = None,
        checkpoint: str | None = None,
        name: str = "VariationalAutoEncoder",
    ) -> None:
        """Makes the encoder.

        Args:
            z_dim: size of the code.
            input_tensor_spec: nest of specs of what is encoded; may be left out if `preprocess_network` is given.
            preprocess_network: from what is encoded to a vector, of which two linear layers make mean and log-variance.
                With a prior network its input is the triple (condition, what is encoded, output of the prior network).
                None makes one with two tanh layers of `2 * z_dim`.
            z_prior_network: from a condition to the prior's mean and log-variance, `2 * z_dim` numbers without
                activation. None is a standard normal prior.
            beta: weight of the KL.
            target_kld_per_dim: if given, beta is tuned until the KL is `z_dim` times this, in nats.
            beta_optimizer: of beta's logarithm; None leaves it to the optimizer of the rest.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            name: name in summaries.
        """
        super().__init__(checkpoint=checkpoint, name=name)
        if z_dim < 1:
            raise ValueError(f"{name}: z_dim is {z_dim}: it must be positive")
        if preprocess_network is None:
            if input_tensor_spec is None:
                raise ValueError(f"{name}: give input_tensor_spec, or a preprocess_network")
            spec = input_tensor_spec
            if z_prior_network is not None:
                spec = (z_prior_network.input_tensor_spec, input_tensor_spec, z_prior_network.output_spec)
            preprocess_network = EncodingNetwork(
                spec,
                preprocessing_combiner=NestConcat(),
                fc_layer_params=(2 * z_dim, 2 * z_dim),
                activation=torch.tanh,
                name=f"{name}.preprocess_network",
            )
        size = self._take_networks(preprocess_network, z_prior_network, 2 * z_dim)
        self._z_dim = z_dim
        self._z_mean = FC(size, z_dim)
        self._z_log_variance = FC(size, z_dim)
        self._take_beta(beta, None if target_kld_per_dim is None else target_kld_per_dim * z_dim, beta_optimizer)

    @property
    def output_spec(self) -> TensorSpec:
        """Spec of `z` and of `z_mode`, [z_dim]."""
        return TensorSpec((self._z_dim,))

    def _posterior(self, features: Tensor, prior: Tensor | None) -> tuple[VAEOutput, Tensor]:
        mean, log_variance = self._z_mean(features), self._z_log_variance(features)
        if prior is None:
            kld = standard_normal_kl(mean, log_variance)
        else:
            prior_mean, prior_log_variance = prior.chunk(2, -1)
            kld = residual_gaussian_kl(mean, log_variance, prior_log_variance)
            mean, log_variance = mean + prior_mean, log_variance + prior_log_variance
        std = (0.5 * log_variance).exp()
        return VAEOutput(z=mean + std * torch.randn_like(std), z_mode=mean, z_std=std), kld
