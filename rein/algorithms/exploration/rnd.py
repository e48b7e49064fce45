"""Random network distillation (Burda et al. 2019, arXiv:1810.12894).

With a fixed random network g and a learnt one h, the reward for seeing s is

    r = ||g(s) - h(s)||^2

and h is trained on the same number: what was seen often is predicted well, what is new is not.

Deviations from the paper: rewards are normalized by their own mean and deviation instead of by the deviation of their
returns, so that on average curiosity neither rewards nor punishes staying alive. Every step counts in the loss, the last
one of an episode too, or the ends of episodes would stay new forever.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.framework.algorithm import Algorithm
from rein.nest import Nest
from rein.networks import Network
from rein.statistics import AdaptiveNormalizer, ScalarAdaptiveNormalizer

# Burda et al., section 2.4: in deviations from the mean.
_OBSERVATION_CLIP = 5.0


class RNDInfo(NamedTuple):
    """What the loss needs of a step."""

    loss: Nest = ()
    """[B] squared error of the prediction."""


@configurable
class RNDAlgorithm(Algorithm):
    """Rewards what a network cannot predict yet about another, random one."""

    def __init__(
        self,
        target_net: Network,
        predictor_net: Network,
        encoder_net: Network | None = None,
        reward_adapt_speed: float | None = None,
        observation_adapt_speed: float | None = None,
        observation_spec: Nest | None = None,
        optimizer: Any | None = None,
        clip_value: float = -1.0,
        keep_stacked_frames: int = 1,
        name: str = "RNDAlgorithm",
    ) -> None:
        """Makes the module.

        Args:
            target_net: g, which stays as it is; its output is a vector.
            predictor_net: h, which learns to give the same output.
            encoder_net: applied to the observation before both; it stays as it is.
            reward_adapt_speed: rewards are normalized by about the last T / speed of T steps; None leaves them as they
                are.
            observation_adapt_speed: the same for observations, which needs `observation_spec`.
            observation_spec: specs of the observation, after the selection of frames.
            optimizer: of the predictor.
            clip_value: if positive, normalized rewards are limited to [-clip_value, clip_value].
            keep_stacked_frames: if positive, only so many channels at the end of images [C, H, W] are looked at: the
                newest frames of a stack. Observations that are not images are looked at as a whole.
            name: name in summaries.
        """
        super().__init__(optimizer=optimizer, name=name)
        if target_net.output_spec != predictor_net.output_spec:
            raise ValueError(
                f"{name}: target_net gives {target_net.output_spec}, predictor_net {predictor_net.output_spec}: the output "
                "of both must have the same shape"
            )
        if keep_stacked_frames < 0:
            raise ValueError(f"{name}: keep_stacked_frames is {keep_stacked_frames}: it must not be negative")
        if observation_adapt_speed is not None and observation_spec is None:
            raise ValueError(f"{name}: observation_adapt_speed is set: give observation_spec too")
        self._target_net = target_net.requires_grad_(False)
        self._encoder_net = None if encoder_net is None else encoder_net.requires_grad_(False)
        self._predictor_net = predictor_net
        self._keep_stacked_frames = keep_stacked_frames
        self._clip_value = clip_value
        self._reward_normalizer = None
        if reward_adapt_speed is not None:
            self._reward_normalizer = ScalarAdaptiveNormalizer(speed=reward_adapt_speed)
        self._observation_normalizer = None
        if observation_adapt_speed is not None:
            self._observation_normalizer = AdaptiveNormalizer(
                observation_spec, speed=observation_adapt_speed, auto_update=False
            )

    def predict_step(self, inputs: TimeStep, state: Nest = ()) -> AlgStep:
        """Nothing: there is no reward in evaluation."""
        return AlgStep()

    def rollout_step(self, inputs: TimeStep, state: Nest = ()) -> AlgStep:
        """The reward [B] for what is observed."""
        observation = self._newest_frames(inputs.observation)
        if self._observation_normalizer is not None:
            self._observation_normalizer.update(observation)
        with torch.set_grad_enabled(bool(self.on_policy) and torch.is_grad_enabled()):
            error = self._error(observation)
        reward = error.detach()
        if self._reward_normalizer is not None:
            reward = self._reward_normalizer.normalize(reward, self._clip_value)
        return AlgStep(output=reward, info=RNDInfo(loss=error) if self.on_policy else ())

    def train_step(self, inputs: TimeStep, state: Nest = (), rollout_info: Nest = ()) -> AlgStep:
        """The error of the prediction."""
        return AlgStep(info=RNDInfo(loss=self._error(self._newest_frames(inputs.observation))))

    def calc_loss(self, info: RNDInfo) -> LossInfo:
        """The mean error over all steps."""
        loss = info.loss.mean()
        return LossInfo(scalar_loss=loss, extra={"prediction": loss})

    def _newest_frames(self, observation: Nest) -> Nest:
        """The observation without the older frames of stacks of images; no gradient flows to where it came from."""
        keep = self._keep_stacked_frames

        def newest(tensor: Tensor) -> Tensor:
            return tensor[:, -keep:].detach() if keep > 0 and tensor.ndim == 4 else tensor.detach()

        return nest.map_structure(newest, observation)

    def _error(self, observation: Nest) -> Tensor:
        """||g(s) - h(s)||^2, [B]."""
        with torch.no_grad():
            if self._observation_normalizer is not None:
                observation = self._observation_normalizer.normalize(observation, _OBSERVATION_CLIP)
            if self._encoder_net is not None:
                observation, _ = self._encoder_net(observation)
            target, _ = self._target_net(observation)
        prediction, _ = self._predictor_net(observation)
        return (target - prediction).square().flatten(1).sum(1)
