"""Rewards for what an ensemble disagrees about: uncertainty as curiosity.

N networks f_i, kept apart as particles by Stein variational gradient descent (`particle_vi`), learn to predict a fixed
random function g of the observation, as in random network distillation. With phi(s) a fixed encoding of the observation,

    r(s) = sum_k Var_i f_ik(phi(s))

Where there was data, all of them fit g and agree; elsewhere they extrapolate in different ways. Unlike the error of a
single prediction, disagreement vanishes with data also where the predictors cannot fit g (Pathak et al. 2019,
arXiv:1906.04161, who use models of the dynamics; Osband et al. 2018, arXiv:1806.03335, who use random priors).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rein import nest
from rein.algorithms.particle_vi.propagation import loss_and_gradient, propagated_loss
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.framework import Algorithm
from rein.nest import Nest
from rein.networks import Network, ParamNetwork, ReluMLP
from rein.ops import disagreement, svgd_direction
from rein.specs import TensorSpec
from rein.statistics import AdaptiveNormalizer, ScalarAdaptiveNormalizer

# In deviations from the mean, as for random network distillation.
_OBSERVATION_CLIP = 5.0


class EnsembleUncertaintyInfo(NamedTuple):
    """What the loss needs of a step."""

    feature: Nest = ()
    """[B, D] encoding of the observation."""


@configurable
class EnsembleUncertaintyAlgorithm(Algorithm):
    """Rewards what the networks of an ensemble predict differently."""

    def __init__(
        self,
        encoder_net: Network,
        observation_spec: Nest | None = None,
        num_networks: int = 8,
        hidden_layers: Sequence[int] = (64,),
        output_dim: int = 8,
        entropy_regularization: float = 1e-3,
        reward_adapt_speed: float = 8.0,
        optimizer: Any | None = None,
        name: str = "EnsembleUncertaintyAlgorithm",
    ) -> None:
        """Makes the ensemble and the function that it learns.

        Args:
            encoder_net: phi, from observations to vectors; it stays as it is.
            observation_spec: specs of the observation, which is then normalized.
            num_networks: N, at least 2.
            hidden_layers: sizes of the hidden layers of the networks and of g.
            output_dim: numbers that g makes.
            entropy_regularization: weight of the repulsion of the networks against their mean squared error.
            reward_adapt_speed: rewards are normalized by about the last T / speed of T steps.
            optimizer: of the ensemble.
            name: name in summaries.
        """
        super().__init__(optimizer=optimizer, name=name)
        if num_networks < 2:
            raise ValueError(f"{name}: num_networks is {num_networks}: at least two are needed to disagree")
        feature_spec = encoder_net.output_spec
        if not isinstance(feature_spec, TensorSpec) or feature_spec.ndim != 1:
            raise ValueError(f"{name}: encoder_net gives {feature_spec}: it must make one vector of an observation")
        self._encoder_net = encoder_net.requires_grad_(False)
        self._target_net = ReluMLP(feature_spec, output_dim, tuple(hidden_layers)).requires_grad_(False)
        self._net = ParamNetwork(feature_spec, fc_layer_params=tuple(hidden_layers), last_layer_size=output_dim)
        self._particles = nn.Parameter(self._net.draw_parameters(num_networks))
        self._entropy_regularization = entropy_regularization
        self._reward_normalizer = ScalarAdaptiveNormalizer(speed=reward_adapt_speed)
        self._observation_normalizer = None
        if observation_spec is not None:
            self._observation_normalizer = AdaptiveNormalizer(observation_spec, auto_update=False)

    # Acting.

    def predict_step(self, inputs: TimeStep, state: Nest = ()) -> AlgStep:
        """Nothing: there is no reward in evaluation."""
        return AlgStep()

    def rollout_step(self, inputs: TimeStep, state: Nest = ()) -> AlgStep:
        """The reward [B] for what is observed."""
        observation = nest.detach(inputs.observation)
        if self._observation_normalizer is not None:
            self._observation_normalizer.update(observation)
        feature = self._feature(observation)
        reward = self._reward_normalizer.normalize(self.uncertainty(feature))
        return AlgStep(output=reward, info=EnsembleUncertaintyInfo(feature) if self.on_policy else ())

    @torch.no_grad()
    def uncertainty(self, feature: Tensor) -> Tensor:
        """Disagreement [B] about features [B, D]."""
        return disagreement(self._predict(self._particles, feature))

    # Learning.

    def train_step(self, inputs: TimeStep, state: Nest = (), rollout_info: Nest = ()) -> AlgStep:
        """The encoding of the observation."""
        return AlgStep(info=EnsembleUncertaintyInfo(self._feature(nest.detach(inputs.observation))))

    def calc_loss(self, info: EnsembleUncertaintyInfo) -> LossInfo:
        """The loss that moves the networks along the direction of Stein variational gradient descent."""
        feature = info.feature.flatten(0, -2)
        with torch.no_grad():
            target, _ = self._target_net(feature)

        def energy(params: Tensor) -> Tensor:
            error = self._predict(params, feature) - target.unsqueeze(1)
            return 0.5 * error.square().sum(-1).mean(0)

        error, gradient = loss_and_gradient(energy, self._particles)
        direction = svgd_direction(self._particles.detach(), gradient, self._entropy_regularization)
        loss = propagated_loss(direction, self._particles).mean()
        return LossInfo(scalar_loss=loss, extra={"prediction": error.mean()})

    @torch.no_grad()
    def _feature(self, observation: Nest) -> Tensor:
        """Phi(s), [B, D]."""
        if self._observation_normalizer is not None:
            observation = self._observation_normalizer.normalize(observation, _OBSERVATION_CLIP)
        feature: Tensor = self._encoder_net(observation)[0]
        return feature

    def _predict(self, params: Tensor, feature: Tensor) -> Tensor:
        """Outputs [B, N, K] of networks with parameters [N, param_length]."""
        self._net.set_parameters(params)
        outputs: Tensor = self._net(feature)[0]
        return outputs
