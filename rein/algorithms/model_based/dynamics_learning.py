"""Learns how an observation changes under an action (Chua et al. 2018, arXiv:1805.12114, section 4).

With the feature x (the observation, or a representation of it), the action a that was taken there and the network f:

    deterministic:  x' = x + f(x, a)                    loss  1/2 mean_d (x' - truth)^2, summed over replicas
    stochastic:     x' = x + c,  c ~ f(. | x, a)        loss  -log f(truth - x | x, a), averaged over replicas    (eq. 1)

Inputs are shifted by one: at a time step, x is `state.feature`, what was observed at the step before, and a is
`time_step.prev_action`; what is predicted is the observation of this step. A prediction becomes `state.feature`, so that
calls chain in imagination; learning and acting put the truth there instead.

The transition into a LAST step is real and counts. A FIRST step has none and its loss is 0. The loss is given as one
number, the mean over all steps, so that the mask of LAST steps of the framework does not apply.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.distributions import Distribution
from rein.framework import Algorithm
from rein.nest import Nest
from rein.networks import DynamicsNetwork, Network, NormalProjectionNetwork
from rein.networks.layers.layer import check_sizes
from rein.ops import clipped_exp
from rein.specs import BoundedTensorSpec, TensorSpec


class DynamicsState(NamedTuple):
    """What a prediction begins with."""

    feature: Nest = ()
    """[B, d] of the step before, or [B, n, d] with n > 1 replicas."""
    network: Nest = ()
    """State of the network."""


class DynamicsInfo(NamedTuple):
    """What a step of learning or prediction found."""

    loss: Nest = ()
    """`LossInfo` with the loss [B] of each sample."""
    dist: Nest = ()
    """Distribution of the change, of a stochastic model."""


@configurable
class DynamicsLearningAlgorithm(Algorithm):
    """Base of models of the dynamics; derive and define `predict_step`, `train_step` and `update_state`."""

    def __init__(
        self,
        train_state_spec: Nest,
        action_spec: BoundedTensorSpec,
        feature_spec: TensorSpec,
        hidden_size: int | Sequence[int] = 256,
        num_replicas: int = 1,
        dynamics_network: Network | None = None,
        checkpoint: str | None = None,
        name: str = "DynamicsLearningAlgorithm",
    ) -> None:
        """Keeps the network.

        Args:
            train_state_spec: specs of the state of `train_step`.
            action_spec: of the action, a single one.
            feature_spec: of what is predicted, a single tensor.
            hidden_size: size(s) of the hidden layers of the network, if it is not given.
            num_replicas: networks that each learn the same from their own initial weights.
            dynamics_network: from (feature, encoded action) to the change of the feature, all replicas in one; None leaves
                prediction to the class that derives.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            name: name in summaries.
        """
        super().__init__(train_state_spec=train_state_spec, checkpoint=checkpoint, name=name)
        self._action_spec = _single(action_spec, "action_spec", name)
        self._feature_spec = _single(feature_spec, "feature_spec", name)
        self._hidden_size = _sizes(hidden_size, name)
        check_sizes(name, num_replicas=num_replicas)
        self._num_replicas = num_replicas
        self._dynamics_network = dynamics_network

    @property
    def num_replicas(self) -> int:
        """Networks in the ensemble."""
        return self._num_replicas

    def get_state_specs(self) -> Nest:
        """Specs of the state, for the algorithm that this one is a part of."""
        return self._train_state_spec

    def predict_step(self, time_step: TimeStep, state: DynamicsState) -> AlgStep:
        """The feature of this time step, predicted from that of the step before.

        Args:
            time_step: its `prev_action` [B, ...] is used.
            state: with the feature of the step before.
        """
        self._missing("predict_step")

    def train_step(self, time_step: TimeStep, state: DynamicsState, rollout_info: Nest = ()) -> AlgStep:
        """The loss of the prediction of this time step.

        Args:
            time_step: [B, ...]; its observation is the truth.
            state: with the feature of the step before.
            rollout_info: not used.

        Returns:
            `info` is a `DynamicsInfo` with the losses [B].
        """
        self._missing("train_step")

    def update_state(self, time_step: TimeStep, state: DynamicsState) -> DynamicsState:
        """The state after an observation was made while acting.

        Args:
            time_step: what was observed.
            state: before that.
        """
        self._missing("update_state")

    def calc_loss(self, info: DynamicsInfo) -> LossInfo:
        """The mean of the losses [T, B] of all steps, LAST ones included, as `scalar_loss`."""
        loss = nest.map_structure(torch.mean, info.loss)
        return LossInfo(scalar_loss=loss.loss, extra=loss.extra)


@configurable
class DeterministicDynamicsAlgorithm(DynamicsLearningAlgorithm):
    """Predicts the next feature; an ensemble predicts one for each replica."""

    def __init__(
        self,
        action_spec: BoundedTensorSpec,
        feature_spec: TensorSpec,
        hidden_size: int | Sequence[int] = 256,
        num_replicas: int = 1,
        dynamics_network_ctor: Callable[..., Network] | None = None,
        name: str = "DeterministicDynamicsAlgorithm",
    ) -> None:
        """Makes the model.

        Args:
            action_spec: of the action, a single one; a discrete one is given to the network as a one-hot code.
            feature_spec: of what is predicted, a single tensor of real numbers.
            hidden_size: size(s) of the hidden layers of the network, if `dynamics_network_ctor` is None.
            num_replicas: networks that each learn the same from their own initial weights, evaluated as one.
            dynamics_network_ctor: called as `ctor(input_tensor_spec=(feature_spec, encoded_action_spec),
                output_tensor_spec=feature_spec)`; gives the change of the feature. None is a `DynamicsNetwork`.
            name: name in summaries.
        """
        feature_spec = _single(feature_spec, "feature_spec", name)
        if not feature_spec.is_continuous:
            raise ValueError(f"{name}: feature_spec is {feature_spec}: only real numbers change by a prediction")
        encoded_spec = _encoded_action_spec(_single(action_spec, "action_spec", name), name)
        ctor = dynamics_network_ctor or self._default_network(_sizes(hidden_size, name))
        network = ctor(input_tensor_spec=(feature_spec, encoded_spec), output_tensor_spec=feature_spec)
        self._check_network(network, feature_spec, name)
        feature_shape: tuple[int, ...] = tuple(feature_spec.shape)
        check_sizes(name, num_replicas=num_replicas)
        if num_replicas > 1:
            network = network.make_parallel(num_replicas)
            feature_shape = (num_replicas, *feature_shape)
        super().__init__(
            train_state_spec=DynamicsState(TensorSpec(feature_shape), network.state_spec),
            action_spec=action_spec,
            feature_spec=feature_spec,
            hidden_size=hidden_size,
            num_replicas=num_replicas,
            dynamics_network=network,
            name=name,
        )

    # Prediction.

    def predict_step(self, time_step: TimeStep, state: DynamicsState) -> AlgStep:
        """The feature of this time step, predicted from that of the step before.

        Args:
            time_step: its `prev_action` [B, ...] or [B, n, ...] is used.
            state: `feature` [B, ...] or [B, n, ...] of the step before.

        Returns:
            `output` is the predicted feature, [B, ...], or [B, n, ...] with n > 1 replicas, and also `state.feature`.
        """
        feature, change, network_state = self._change(time_step, state)
        prediction = feature + change
        return AlgStep(output=prediction, state=DynamicsState(prediction, network_state))

    def update_state(self, time_step: TimeStep, state: DynamicsState) -> DynamicsState:
        """`state` with the feature that was observed now."""
        return state._replace(feature=self._with_replicas(time_step.observation, self._feature_spec))

    # Learning.

    def train_step(self, time_step: TimeStep, state: DynamicsState, rollout_info: Nest = ()) -> AlgStep:
        """The loss of the prediction of this time step.

        Args:
            time_step: [B, ...]; its observation is the truth.
            state: `feature` of the step before.
            rollout_info: not used.

        Returns:
            `state.feature` is the observation, `info` a `DynamicsInfo` with the losses [B].
        """
        feature, change, network_state = self._change(time_step, state)
        error = feature + change - self._with_replicas(time_step.observation, self._feature_spec)
        loss = 0.5 * error.square().flatten(self._batch_ndims).mean(-1)
        info = _losses(loss if self._num_replicas == 1 else loss.sum(1), time_step)
        return AlgStep(state=self.update_state(time_step, DynamicsState(network=network_state)), info=info)

    def train_recurrent_sequences(self, inputs: TimeStep, state: DynamicsState, rollout_info: Nest = ()) -> Nest:
        """Infos [T, B, ...] of sequences [B, T, ...]; a network without state sees all steps in one call."""
        if self._network.is_rnn:
            return super().train_recurrent_sequences(inputs, state, rollout_info)
        observation = inputs.observation
        if self._num_replicas > 1:
            observation = observation.unsqueeze(2).expand(-1, -1, self._num_replicas, *self._feature_spec.shape)
        before = torch.cat([state.feature.unsqueeze(1), observation[:, :-1]], 1)
        return self.train_sequences(inputs, DynamicsState(before), rollout_info)

    @property
    def _network(self) -> Network:
        assert self._dynamics_network is not None
        return self._dynamics_network

    @property
    def _batch_ndims(self) -> int:
        return 1 if self._num_replicas == 1 else 2

    def _change(self, time_step: TimeStep, state: DynamicsState) -> tuple[Tensor, Nest, Nest]:
        """The feature before, what the network says of its change, and the state of the network."""
        feature = self._with_replicas(state.feature, self._feature_spec)
        action = self._with_replicas(time_step.prev_action, self._action_spec)
        change, network_state = self._network((feature, _encode(action, self._action_spec)), state.network)
        return feature, change, network_state

    def _with_replicas(self, x: Tensor, spec: TensorSpec) -> Tensor:
        """[B, ...] as a view [B, n, ...] for n > 1 replicas; what is [B, n, ...] stays so."""
        if self._num_replicas == 1 or x.ndim == spec.ndim + 2:
            return x
        return x.unsqueeze(1).expand(-1, self._num_replicas, *spec.shape)

    # Builders.

    def _default_network(self, hidden_sizes: tuple[int, ...]) -> Callable[..., Network]:
        return partial(DynamicsNetwork, joint_fc_layer_params=hidden_sizes)

    def _check_network(self, network: Network, feature_spec: TensorSpec, name: str) -> None:
        if network.is_distribution_output:
            raise ValueError(
                f"{name}: {network.name} gives a distribution: use StochasticDynamicsAlgorithm, or a network without"
            )
        if tuple(network.output_spec.shape) != tuple(feature_spec.shape):
            raise ValueError(f"{name}: {network.name} gives {network.output_spec}: it must be like {feature_spec}")


@configurable
class StochasticDynamicsAlgorithm(DeterministicDynamicsAlgorithm):
    """Predicts a distribution of the change of the feature, and draws from it in imagination."""

    def __init__(
        self,
        action_spec: BoundedTensorSpec,
        feature_spec: TensorSpec,
        hidden_size: int | Sequence[int] = 256,
        num_replicas: int = 1,
        dynamics_network_ctor: Callable[..., Network] | None = None,
        name: str = "StochasticDynamicsAlgorithm",
    ) -> None:
        """Makes the model.

        Args:
            action_spec: of the action, a single one; a discrete one is given to the network as a one-hot code.
            feature_spec: of what is predicted, a single tensor of real numbers.
            hidden_size: size(s) of the hidden layers of the network, if `dynamics_network_ctor` is None.
            num_replicas: networks that each learn the same from their own initial weights, evaluated as one.
            dynamics_network_ctor: called as `ctor(input_tensor_spec=(feature_spec, encoded_action_spec),
                output_tensor_spec=feature_spec)`; gives a distribution of the change. None is a `DynamicsNetwork` with
                independent normals, whose deviations depend on feature and action.
            name: name in summaries.
        """
        super().__init__(action_spec, feature_spec, hidden_size, num_replicas, dynamics_network_ctor, name)

    def predict_step(self, time_step: TimeStep, state: DynamicsState) -> AlgStep:
        """The feature of this time step, drawn from its distribution; no gradient flows through the draw.

        Args:
            time_step: its `prev_action` [B, ...] or [B, n, ...] is used.
            state: `feature` [B, ...] or [B, n, ...] of the step before.

        Returns:
            `output` is the predicted feature, [B, ...], or [B, n, ...] with n > 1 replicas, and also `state.feature`;
            `info.dist` is the distribution of its change.
        """
        feature, distribution, network_state = self._change(time_step, state)
        prediction = feature + distribution.sample()
        return AlgStep(prediction, DynamicsState(prediction, network_state), DynamicsInfo(dist=distribution))

    def train_step(self, time_step: TimeStep, state: DynamicsState, rollout_info: Nest = ()) -> AlgStep:
        """The loss of the distribution of this time step; see `DeterministicDynamicsAlgorithm.train_step`."""
        feature, distribution, network_state = self._change(time_step, state)
        assert isinstance(distribution, Distribution)
        truth = self._with_replicas(time_step.observation, self._feature_spec)
        loss = -distribution.log_prob(truth - feature)
        info = _losses(loss if self._num_replicas == 1 else loss.mean(1), time_step)
        new_state = self.update_state(time_step, DynamicsState(network=network_state))
        return AlgStep(state=new_state, info=info._replace(dist=distribution))

    def _default_network(self, hidden_sizes: tuple[int, ...]) -> Callable[..., Network]:
        projection = partial(NormalProjectionNetwork, std_transform=clipped_exp)
        return partial(
            DynamicsNetwork,
            joint_fc_layer_params=hidden_sizes,
            prob=True,
            continuous_projection_net_ctor=projection,
        )

    def _check_network(self, network: Network, feature_spec: TensorSpec, name: str) -> None:
        if not network.is_distribution_output:
            raise ValueError(
                f"{name}: {network.name} gives {network.output_spec}, not a distribution: use DynamicsNetwork with "
                "prob=True, or DeterministicDynamicsAlgorithm"
            )


def _losses(loss: Tensor, time_step: TimeStep) -> DynamicsInfo:
    """Losses [B], 0 at FIRST steps, whose state belongs to another episode."""
    loss = loss.masked_fill(time_step.is_first(), 0.0)
    return DynamicsInfo(loss=LossInfo(loss=loss, extra={"forward_loss": loss}))


def _encode(action: Tensor, spec: TensorSpec) -> Tensor:
    """The action [..., A], or the one-hot code of a discrete one."""
    if not isinstance(spec, BoundedTensorSpec) or not spec.is_discrete:
        return action
    return F.one_hot(action.long() - int(spec.minimum), spec.num_values).float()


def _encoded_action_spec(spec: TensorSpec, name: str) -> TensorSpec:
    if not spec.is_discrete:
        return spec
    if not isinstance(spec, BoundedTensorSpec) or spec.ndim != 0:
        raise ValueError(f"{name}: action_spec is {spec}: a discrete action must be a single number with bounds")
    return TensorSpec((spec.num_values,))


def _single(spec: Nest, what: str, name: str) -> TensorSpec:
    if isinstance(spec, TensorSpec):
        return spec
    raise ValueError(f"{name}: {what} is {spec}: the dynamics are those of a single tensor; combine the nest into one")


def _sizes(hidden_size: int | Sequence[int], name: str) -> tuple[int, ...]:
    sizes = (hidden_size,) if isinstance(hidden_size, int) else tuple(hidden_size)
    for size in sizes:
        check_sizes(name, hidden_size=size)
    return sizes
