"""Diversity is all you need (Eysenbach et al. 2019, arXiv:1802.06070).

A discriminator q guesses from the state which skill z is pursued. The agent is rewarded for being recognised,

    r = log q(z | s) - log p(z)                                                  (eq. 3)

and so skills come to visit states that tell them apart. With K discrete skills p(z) = 1 / K. For continuous skills q is a
normal distribution of unit deviation around the guess; constants are left out, so that r = -||z - guess(s)||^2.

Deviations from the paper: rewards are normalized by their mean and deviation, unless `reward_adapt_speed` is None. FIRST
steps, which no action led to, neither reward nor train.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.framework.algorithm import Algorithm
from rein.nest import Nest
from rein.networks import EncodingNetwork, Network
from rein.networks.layers import identity
from rein.networks.layers.initializers import Activation
from rein.ops import masked_mean
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.statistics import AdaptiveNormalizer, ScalarAdaptiveNormalizer


class DIAYNInfo(NamedTuple):
    """What the loss needs of a step."""

    loss: Nest = ()
    """[B] -log q(z | s), or the squared error of the guess."""
    is_right: Nest = ()
    """[B] 1 where a discrete skill was guessed; `()` for continuous ones."""
    is_valid: Nest = ()
    """[B] 0 at FIRST steps."""


@configurable
class DIAYNAlgorithm(Algorithm):
    """Rewards states from which the pursued skill can be told.

    Its observation is the pair [observation, skill] that an `Agent` with a goal generator makes. A discrete skill may
    come as its number [B] or one-hot [B, K].
    """

    def __init__(
        self,
        skill_spec: TensorSpec,
        encoding_net: Network,
        reward_adapt_speed: float | None = 8.0,
        observation_spec: Nest | None = None,
        hidden_size: Sequence[int] = (),
        hidden_activation: Activation = torch.relu_,
        name: str = "DIAYNAlgorithm",
    ) -> None:
        """Makes the module.

        Args:
            skill_spec: a bounded discrete scalar for one of K skills, or a vector for continuous ones.
            encoding_net: makes a vector of the observation (without the skill).
            reward_adapt_speed: rewards are normalized by about the last T / speed of T steps; None leaves them as they
                are.
            observation_spec: specs of the observation (without the skill), which is then normalized.
            hidden_size: sizes of hidden layers between the encoding and the guess.
            hidden_activation: of the hidden layers.
            name: name in summaries.
        """
        super().__init__(name=name)
        self._num_skills = _number_of_skills(skill_spec, name)
        self._skill_spec = skill_spec
        self._encoding_net = encoding_net
        self._discriminator = EncodingNetwork(
            encoding_net.output_spec,
            fc_layer_params=tuple(hidden_size),
            activation=hidden_activation,
            last_layer_size=self._num_skills or skill_spec.numel,
            last_activation=identity,
            name=f"{name}.discriminator",
        )
        self._reward_normalizer = None
        if reward_adapt_speed is not None:
            self._reward_normalizer = ScalarAdaptiveNormalizer(speed=reward_adapt_speed, auto_update=False)
        self._observation_normalizer = None
        if observation_spec is not None:
            self._observation_normalizer = AdaptiveNormalizer(observation_spec, auto_update=False)

    @property
    def skill_spec(self) -> TensorSpec:
        """Spec of the skill."""
        return self._skill_spec

    def predict_step(self, inputs: TimeStep, state: Nest = ()) -> AlgStep:
        """Nothing: there is no reward in evaluation."""
        return AlgStep()

    def rollout_step(self, inputs: TimeStep, state: Nest = ()) -> AlgStep:
        """The reward [B] for being recognised at what is observed."""
        if self._observation_normalizer is not None:
            self._observation_normalizer.update(inputs.observation[0])
        with torch.set_grad_enabled(bool(self.on_policy) and torch.is_grad_enabled()):
            info = self._discriminate(inputs)
        return AlgStep(output=self._reward(info), info=info if self.on_policy else ())

    def train_step(self, inputs: TimeStep, state: Nest = (), rollout_info: Nest = ()) -> AlgStep:
        """The loss of the discriminator."""
        return AlgStep(info=self._discriminate(inputs))

    def calc_loss(self, info: DIAYNInfo) -> LossInfo:
        """The mean loss of the discriminator; its accuracy goes to the summaries."""
        loss = masked_mean(info.loss, info.is_valid)
        extra = {"discriminator": loss}
        if isinstance(info.is_right, Tensor):
            extra["accuracy"] = masked_mean(info.is_right, info.is_valid)
        return LossInfo(scalar_loss=loss, extra=extra)

    def _discriminate(self, inputs: TimeStep) -> DIAYNInfo:
        observation, skill = inputs.observation
        if self._observation_normalizer is not None:
            observation = self._observation_normalizer.normalize(observation)
        guess, _ = self._discriminator(self._encoding_net(observation)[0])
        is_valid = (~inputs.is_first()).float()
        if not self._num_skills:
            return DIAYNInfo(loss=(guess - skill.detach()).square().sum(-1), is_valid=is_valid)
        number = self._number_of(skill)
        is_right = (guess.argmax(-1) == number).float()
        return DIAYNInfo(F.cross_entropy(guess, number, reduction="none"), is_right, is_valid)

    def _number_of(self, skill: Tensor) -> Tensor:
        """A discrete skill as int64 [B] from 0."""
        if skill.ndim == 2:
            return skill.argmax(-1)
        assert isinstance(self._skill_spec, BoundedTensorSpec)
        return skill.long() - int(self._skill_spec.minimum)

    @torch.no_grad()
    def _reward(self, info: DIAYNInfo) -> Tensor:
        """Log q(z | s) - log p(z), normalized; 0 at FIRST steps."""
        reward = -info.loss.detach()
        if self._num_skills:
            reward = reward + math.log(self._num_skills)
        if self._reward_normalizer is not None:
            self._reward_normalizer.update(reward[info.is_valid > 0])
            reward = self._reward_normalizer.normalize(reward)
        return reward * info.is_valid


def _number_of_skills(skill_spec: TensorSpec, name: str) -> int:
    """K for a discrete skill, 0 for a continuous one."""
    if skill_spec.is_discrete:
        if not isinstance(skill_spec, BoundedTensorSpec) or skill_spec.ndim != 0:
            raise ValueError(f"{name}: skill_spec is {skill_spec}: a discrete skill is a bounded scalar")
        return skill_spec.num_values
    if skill_spec.ndim != 1:
        raise ValueError(f"{name}: skill_spec is {skill_spec}: a continuous skill is a vector")
    return 0
