"""Intrinsic curiosity module (Pathak et al. 2017, arXiv:1705.05363).

With phi the feature of an observation, f and g learnt networks, and a_t the action between two observations,

    forward  L_F = ||f(phi(s_t), a_t) - phi(s_{t+1})||^2         trains f
    inverse  L_I = -log g(a_t | phi(s_t), phi(s_{t+1}))          trains g and phi
    reward   r_{t+1} = L_F

so that features keep what actions can change, and what cannot be predicted yet is rewarded. For continuous actions L_I is
the squared error of the guessed action.

Deviations from the paper: both losses have weight 1. Rewards are normalized by their mean and deviation. FIRST steps,
which no action led to, have neither loss nor reward; LAST ones have both.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.framework.algorithm import Algorithm
from rein.framework.steps import time_major
from rein.nest import Nest
from rein.networks import EncodingNetwork, NestConcat, Network
from rein.networks.layers import identity
from rein.networks.layers.initializers import Activation
from rein.networks.state import zero_state
from rein.ops import masked_mean
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.statistics import AdaptiveNormalizer, ScalarAdaptiveNormalizer


class ICMState(NamedTuple):
    """What is remembered from step to step."""

    feature: Nest = ()
    """[B, D] of the observation before."""
    is_known: Nest = ()
    """[B] 0 where there was none."""


class ICMInfo(NamedTuple):
    """What the losses need of a step."""

    forward_loss: Nest = ()
    inverse_loss: Nest = ()
    is_valid: Nest = ()
    """[B] 1 where an action led from a known observation to this one."""


@configurable
class ICMAlgorithm(Algorithm):
    """Rewards what a model of the consequences of actions cannot predict yet."""

    def __init__(
        self,
        action_spec: Nest,
        observation_spec: Nest | None = None,
        hidden_size: int | Sequence[int] = 256,
        reward_adapt_speed: float = 8.0,
        encoding_net: Network | None = None,
        forward_net: Network | None = None,
        inverse_net: Network | None = None,
        activation: Activation = torch.relu_,
        optimizer: Any | None = None,
        name: str = "ICMAlgorithm",
    ) -> None:
        """Makes the module.

        Args:
            action_spec: specs of the action: discrete ones with bounds, continuous ones with or without, or a nest.
            observation_spec: specs of the observation, which is then normalized.
            hidden_size: size(s) of the hidden layers of f and g, if they are not given.
            reward_adapt_speed: rewards are normalized by about the last T / speed of T steps.
            encoding_net: phi, from observations to vectors; None takes the (normalized) observation itself.
            forward_net: f, from [feature, code of the action] to a feature; the code is one-hot for discrete actions,
                the action itself for continuous ones, all parts of a nest one after the other.
            inverse_net: g, from [feature, next feature] to logits of discrete and values of continuous actions, in the
                order of the code.
            activation: of the hidden layers of f and g, if they are not given.
            optimizer: of all three networks.
            name: name in summaries.
        """
        feature_spec = observation_spec if encoding_net is None else encoding_net.output_spec
        if not isinstance(feature_spec, TensorSpec) or feature_spec.ndim != 1:
            raise ValueError(
                f"{name}: features are {feature_spec}: give an encoding_net that makes one vector of an observation"
            )
        state_spec = ICMState(TensorSpec(feature_spec.shape), TensorSpec(()))
        super().__init__(train_state_spec=state_spec, predict_state_spec=(), optimizer=optimizer, name=name)
        self._action_code = _ActionCode(action_spec, name)
        sizes = (hidden_size,) if isinstance(hidden_size, int) else tuple(hidden_size)
        feature_size, code_size = feature_spec.numel, self._action_code.size

        def network(second: int, outputs: int, what: str) -> Network:
            return EncodingNetwork(
                [TensorSpec((feature_size,)), TensorSpec((second,))],
                preprocessing_combiner=NestConcat(),
                fc_layer_params=sizes,
                activation=activation,
                last_layer_size=outputs,
                last_activation=identity,
                name=f"{name}.{what}",
            )

        self._encoding_net = encoding_net
        self._forward_net = network(code_size, feature_size, "forward") if forward_net is None else forward_net
        self._inverse_net = network(feature_size, code_size, "inverse") if inverse_net is None else inverse_net
        self._reward_normalizer = ScalarAdaptiveNormalizer(speed=reward_adapt_speed, auto_update=False)
        self._observation_normalizer = None
        if observation_spec is not None:
            self._observation_normalizer = AdaptiveNormalizer(observation_spec, auto_update=False)

    # Acting.

    def predict_step(self, inputs: TimeStep, state: Nest = ()) -> AlgStep:
        """Nothing: there is no reward in evaluation."""
        return AlgStep()

    def rollout_step(self, inputs: TimeStep, state: ICMState) -> AlgStep:
        """The reward [B] for where the last action led."""
        if self._observation_normalizer is not None:
            self._observation_normalizer.update(inputs.observation)
        with torch.set_grad_enabled(bool(self.on_policy) and torch.is_grad_enabled()):
            feature = self._feature(inputs.observation)
            is_valid = _is_valid(inputs, state)
            code = self._action_code.encode(inputs.prev_action)
            forward_loss = self._forward_loss(state.feature, code, feature)
            info: Nest = ()
            if self.on_policy:
                inverse_loss = self._inverse_loss(state.feature, feature, inputs.prev_action)
                info = ICMInfo(forward_loss, inverse_loss, is_valid)
        reward = self._reward(forward_loss.detach(), is_valid)
        return AlgStep(output=reward, state=ICMState(feature, torch.ones_like(is_valid)), info=info)

    @torch.no_grad()
    def _reward(self, error: Tensor, is_valid: Tensor) -> Tensor:
        self._reward_normalizer.update(error[is_valid > 0])
        return self._reward_normalizer.normalize(error) * is_valid

    # Learning.

    def train_step(self, inputs: TimeStep, state: ICMState, rollout_info: Nest = ()) -> AlgStep:
        """Both losses of where the last action led."""
        feature = self._feature(inputs.observation)
        is_valid = _is_valid(inputs, state)
        info = self._losses(state.feature, feature, inputs.prev_action, is_valid)
        return AlgStep(state=ICMState(feature, torch.ones_like(is_valid)), info=info)

    def train_sequences(self, inputs: TimeStep, state: Nest, rollout_info: Nest = ()) -> ICMInfo:
        """Losses of sequences [B, T, ...]; each step finds the observation before it in its sequence."""
        if nest.is_empty(state):
            first = zero_state(self._train_state_spec, inputs.step_type.shape[0], inputs.step_type.device)
        else:
            first = nest.index_nest(state, (slice(None), 0))
        return self.train_recurrent_sequences(inputs, first, rollout_info)

    def train_recurrent_sequences(self, inputs: TimeStep, state: ICMState, rollout_info: Nest = ()) -> ICMInfo:
        """What `train_step` does on each step of sequences [B, T, ...], the networks evaluated once."""
        batch, length = inputs.step_type.shape
        merged = nest.map_structure(lambda t: t.flatten(0, 1), (inputs.observation, inputs.prev_action))
        observation, prev_action = merged
        feature = self._feature(observation)
        rows = feature.reshape(batch, length, -1)
        before = torch.cat([state.feature.unsqueeze(1), rows[:, :-1]], 1).flatten(0, 1)
        is_known = torch.ones(batch, length, device=rows.device)
        is_known[:, 0] = state.is_known
        is_valid = (is_known * ~inputs.is_first()).flatten()
        info = self._losses(before, feature, prev_action, is_valid)
        return time_major(nest.map_structure(lambda t: t.reshape(batch, length), info))

    def calc_loss(self, info: ICMInfo) -> LossInfo:
        """The sum of the mean losses over the steps that an action led to."""
        forward_loss = masked_mean(info.forward_loss, info.is_valid)
        inverse_loss = masked_mean(info.inverse_loss, info.is_valid)
        extra = {"forward": forward_loss, "inverse": inverse_loss}
        return LossInfo(scalar_loss=forward_loss + inverse_loss, extra=extra)

    def _losses(self, before: Tensor, after: Tensor, action: Nest, is_valid: Tensor) -> ICMInfo:
        forward_loss = self._forward_loss(before, self._action_code.encode(action), after)
        return ICMInfo(forward_loss, self._inverse_loss(before, after, action), is_valid)

    def _feature(self, observation: Nest) -> Tensor:
        """Phi(s), [B, D]."""
        if self._observation_normalizer is not None:
            observation = self._observation_normalizer.normalize(observation)
        return observation if self._encoding_net is None else self._encoding_net(observation)[0]

    def _forward_loss(self, before: Tensor, code: Tensor, after: Tensor) -> Tensor:
        """L_F, [B]; its gradient stops at the features."""
        prediction, _ = self._forward_net([before.detach(), code])
        return (prediction - after.detach()).square().sum(-1)

    def _inverse_loss(self, before: Tensor, after: Tensor, action: Nest) -> Tensor:
        """L_I, [B]."""
        guess, _ = self._inverse_net([before, after])
        return self._action_code.error(guess, action)


def _is_valid(inputs: TimeStep, state: ICMState) -> Tensor:
    """[B] 1 where an action led from a known observation to this one."""
    return state.is_known * ~inputs.is_first()


class _ActionCode:
    """Actions as vectors: one-hot for every discrete element, the number itself for a continuous one."""

    def __init__(self, action_spec: Nest, name: str) -> None:
        self._specs: list[TensorSpec] = []
        # For each element of the action, in order: the least value and the number of values, 0 if continuous.
        self._elements: list[list[tuple[int, int]]] = []
        for path, spec in nest.flatten_with_paths(action_spec):
            self._specs.append(spec)
            if spec.is_continuous:
                self._elements.append([(0, 0)] * spec.numel)
            elif isinstance(spec, BoundedTensorSpec):
                bounds = zip(spec.minimum.flat, spec.maximum.flat, strict=True)
                self._elements.append([(int(low), int(high) - int(low) + 1) for low, high in bounds])
            else:
                raise ValueError(
                    f"{name}: action {path!r} is {spec!r}: a discrete action needs bounds, give a BoundedTensorSpec"
                )
        self.size = sum(max(count, 1) for elements in self._elements for _, count in elements)

    def encode(self, action: Nest) -> Tensor:
        """[B, size]; no gradient flows to the action."""
        parts = []
        for leaf, elements, spec in zip(nest.flatten(action), self._elements, self._specs, strict=True):
            columns = leaf.detach().reshape(leaf.shape[0], -1)
            if spec.is_continuous:
                parts.append(columns.float())
                continue
            for column, (low, count) in zip(columns.unbind(1), elements, strict=True):
                parts.append(F.one_hot((column.long() - low).clamp(0, count - 1), count).float())
        return torch.cat(parts, 1)

    def error(self, guess: Tensor, action: Nest) -> Tensor:
        """[B], -log g(a) of discrete elements and squared errors of continuous ones, added up.

        Args:
            guess: [B, size].
            action: what was done.
        """
        total = guess.new_zeros(guess.shape[0])
        begin = 0
        for leaf, elements in zip(nest.flatten(action), self._elements, strict=True):
            columns = leaf.detach().reshape(leaf.shape[0], -1)
            for column, (low, count) in zip(columns.unbind(1), elements, strict=True):
                part = guess[:, begin : begin + max(count, 1)]
                if count:
                    total = total + F.cross_entropy(part, (column.long() - low).clamp(0, count - 1), reduction="none")
                else:
                    total = total + (part[:, 0] - column).square()
                begin += max(count, 1)
        return total
