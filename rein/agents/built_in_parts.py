"""The parts of Rein that can be named: functions whose parameters a user can set, and that return arguments of `Agent`.

The first parameter is what `NAME=VALUE` sets. All of them can also be given by a conf or an override, such as
`rnd.learning_rate=1e-3`. For networks of your own, build the agent in code.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from rein import nest
from rein.agents.part_networks import constructor_name, is_continuous, make_encoder, parameter_owners
from rein.agents.parts import entropy_target_for
from rein.algorithms.exploration import DIAYNAlgorithm, ICMAlgorithm, RandomCategoricalGoalGenerator, RNDAlgorithm
from rein.algorithms.regularization import (
    LagrangianPredRewardWeightAlgorithm,
    LagrangianRewardWeightAlgorithm,
    SGDEntropyTargetAlgorithm,
)
from rein.algorithms.representation import EncodingAlgorithm, PredictiveRepresentationLearner, SimpleDecoder
from rein.config import configurable
from rein.framework import Algorithm
from rein.nest import Nest
from rein.networks import EncodingNetwork, Network, RecurrentEncodingNetwork
from rein.networks.layers import LSTMLayer, identity
from rein.networks.recurrent import CellCtor
from rein.optimizers import Adam
from rein.specs import BoundedTensorSpec, TensorSpec

Arguments = dict[str, Any]


# Intrinsic rewards.


@configurable
def rnd(
    coef: float = 0.1,
    hidden_layers: Sequence[int] = (64,),
    feature_size: int = 16,
    learning_rate: float = 1e-4,
    clip_value: float = -1.0,
) -> Arguments:
    """Rewards observations that were seldom seen (random network distillation).

    Args:
        coef: factor of the reward, which has mean 0 and deviation 1.
        hidden_layers: sizes of the hidden layers of both networks.
        feature_size: numbers that the random network makes of an observation.
        learning_rate: of the predictor.
        clip_value: if positive, rewards are limited to [-clip_value, clip_value].
    """

    def make(observation_spec: Nest, action_spec: Nest) -> Algorithm:
        network = partial(make_encoder, observation_spec, hidden_layers, feature_size)
        return RNDAlgorithm(
            target_net=network(),
            predictor_net=network(),
            reward_adapt_speed=8.0,
            observation_adapt_speed=8.0 if is_continuous(observation_spec) else None,
            observation_spec=observation_spec,
            optimizer=Adam(lr=learning_rate),
            clip_value=clip_value,
            keep_stacked_frames=0,
        )

    return {"intrinsic_reward_module": make, "intrinsic_reward_coef": coef}


@configurable
def icm(
    coef: float = 0.1,
    hidden_layers: Sequence[int] = (64,),
    feature_size: int = 32,
    learning_rate: float = 1e-3,
) -> Arguments:
    """Rewards consequences of actions that cannot be predicted yet (ICM).

    Args:
        coef: factor of the reward, which has mean 0 and deviation 1.
        hidden_layers: sizes of the hidden layers of the encoder and of both models.
        feature_size: numbers that the encoder makes of an observation.
        learning_rate: of all three networks.
    """

    def make(observation_spec: Nest, action_spec: Nest) -> Algorithm:
        return ICMAlgorithm(
            action_spec,
            observation_spec if is_continuous(observation_spec) else None,
            hidden_size=hidden_layers,
            encoding_net=make_encoder(observation_spec, hidden_layers, feature_size),
            optimizer=Adam(lr=learning_rate),
        )

    return {"intrinsic_reward_module": make, "intrinsic_reward_coef": coef}


@configurable
def diayn(
    num_skills: int = 8,
    coef: float = 1.0,
    extrinsic_coef: float = 0.0,
    hidden_layers: Sequence[int] = (64, 64),
    learning_rate: float = 1e-3,
) -> Arguments:
    """Skills that can be told apart by where they lead (DIAYN).

    Args:
        num_skills: one of them is drawn for each episode, and observed by the policy.
        coef: factor of the reward for being recognised.
        extrinsic_coef: factor of the reward of the environment.
        hidden_layers: sizes of the hidden layers of the discriminator.
        learning_rate: of the discriminator.
    """
    if num_skills < 2:
        raise ValueError(f"num_skills is {num_skills}: there must be at least two to be told apart")

    def make(observation_spec: Nest, action_spec: Nest) -> Algorithm:
        observation, _ = observation_spec
        return DIAYNAlgorithm(
            BoundedTensorSpec((), torch.int64, 0, num_skills - 1),
            make_encoder(observation, hidden_layers),
            observation_spec=observation if is_continuous(observation) else None,
        )

    return {
        **goal_generator(num_of_goals=num_skills),
        "intrinsic_reward_module": make,
        "intrinsic_reward_coef": coef,
        "extrinsic_reward_coef": extrinsic_coef,
        # The discriminator has no optimizer of its own.
        "optimizer": Adam(lr=learning_rate),
    }


# Goals.


@configurable
def goal_generator(num_of_goals: int = 8) -> Arguments:
    """One of several goals, drawn for each episode, that the policy observes.

    Args:
        num_of_goals: all are drawn alike.
    """
    if num_of_goals < 1:
        raise ValueError(f"num_of_goals is {num_of_goals}: there must be at least one")

    def make(observation_spec: Nest, action_spec: Nest) -> Algorithm:
        return RandomCategoricalGoalGenerator(observation_spec, num_of_goals)

    return {"goal_generator": make}


# Representations.


@configurable
def encoding(hidden_layers: Sequence[int] = (64,), learning_rate: float = 1e-3) -> Arguments:
    """A network between the observation and everything else.

    Args:
        hidden_layers: sizes of its layers; the last is the size of the representation.
        learning_rate: of the network, which learns from the losses of all that use it.
    """
    if not hidden_layers:
        raise ValueError("hidden_layers is empty: there must be at least one")
    encoder = partial(make_encoder, hidden_layers=hidden_layers)
    return {
        "representation_learner_cls": partial(EncodingAlgorithm, encoder_cls=encoder, optimizer=Adam(lr=learning_rate))
    }


@configurable
def predictive(
    num_unroll_steps: int = 3,
    hidden_layers: Sequence[int] = (64,),
    learning_rate: float = 1e-3,
    predict_observation: bool = True,
    decoder_layers: Sequence[int] = (),
    cell: CellCtor = LSTMLayer,
) -> Arguments:
    """An encoding that learns to predict rewards and observations.

    Args:
        num_unroll_steps: steps to look ahead.
        hidden_layers: sizes of the layers of the encoder; the last is the size of the representation.
        learning_rate: of everything in it.
        predict_observation: whether vectors in observations are predicted, besides the reward.
        decoder_layers: sizes of the hidden layers of what predicts from a representation.
        cell: makes the model of the dynamics, called as `cell(input_size, hidden_size)`: see `CellCtor`.
    """
    if not hidden_layers:
        raise ValueError("hidden_layers is empty: there must be at least one")

    def make(observation_spec: Nest, action_spec: Nest, **common: Any) -> Algorithm:
        targets = {"reward": common["reward_spec"]}
        if predict_observation:
            targets.update(_vectors(observation_spec))
        optimizer = partial(Adam, lr=learning_rate)
        return PredictiveRepresentationLearner(
            observation_spec,
            action_spec,
            num_unroll_steps=num_unroll_steps,
            decoder_ctor=[partial(_decoder, field, spec, decoder_layers, optimizer) for field, spec in targets.items()],
            encoding_net_ctor=partial(make_encoder, hidden_layers=hidden_layers),
            dynamics_net_ctor=partial(_dynamics, cell, hidden_layers[-1]),
            encoding_optimizer=optimizer(),
            dynamics_optimizer=optimizer() if num_unroll_steps > 0 else None,
            **common,
        )

    return {"representation_learner_cls": make}


def _vectors(observation_spec: Nest) -> dict[str, TensorSpec]:
    paths = nest.flatten_with_paths(observation_spec)
    return {f"observation.{path}".rstrip("."): spec for path, spec in paths if spec.is_continuous and spec.ndim == 1}


def _decoder(
    field: str, spec: TensorSpec, layers: Sequence[int], optimizer: Callable[[], Any], latent_spec: TensorSpec
) -> Algorithm:
    network = partial(
        EncodingNetwork,
        output_tensor_spec=TensorSpec(spec.shape),
        fc_layer_params=tuple(layers),
        last_layer_size=spec.numel,
        last_activation=identity,
    )
    return SimpleDecoder(latent_spec, field, network, normalize_target=True, optimizer=optimizer())


def _dynamics(cell: CellCtor, size: int, action_spec: Nest) -> Network:
    if nest.is_nested(action_spec):
        raise ValueError("its model of the dynamics takes one action, not a nest of them: build the agent in code")
    is_vector = action_spec.is_continuous and action_spec.ndim == 1
    preprocessor = None if is_vector else make_encoder(action_spec, (), size)
    return RecurrentEncodingNetwork(action_spec, cell, input_preprocessors=preprocessor, hidden_size=size)


# Entropy targets.


@configurable
def entropy_target(
    target_entropy: float | None = None,
    initial_alpha: float | None = None,
    skip_free_stage: bool | None = None,
    *,
    rl_algorithm_cls: Callable[..., Any],
) -> Arguments:
    """Keeps the entropy of the policy near a target, in stages.

    An algorithm that regulates its entropy itself, such as SAC, is given the target instead.

    Args:
        target_entropy: in nats; None chooses it by the actions.
        initial_alpha: weight of the entropy at the start; None is 0.1.
        skip_free_stage: adjust the weight from the start.
        rl_algorithm_cls: constructor of the RL algorithm.
    """
    chosen = {"initial_alpha": initial_alpha, "skip_free_stage": skip_free_stage}
    given = {name: value for name, value in chosen.items() if value is not None}
    if _regulates_entropy(rl_algorithm_cls):
        return _own_target(rl_algorithm_cls, target_entropy, given)

    def make(action_spec: Nest, debug_summaries: bool = False) -> Algorithm:
        cls = entropy_target_for(action_spec)
        return cls(action_spec, target_entropy=target_entropy, debug_summaries=debug_summaries, **given)

    return {"entropy_target_cls": make}


@configurable
def sgd_entropy_target(
    target_entropy: float | None = None,
    initial_alpha: float | None = None,
    learning_rate: float = 1e-3,
    *,
    rl_algorithm_cls: Callable[..., Any],
) -> Arguments:
    """Keeps the entropy of the policy near a target, by gradient descent.

    An algorithm that regulates its entropy itself, such as SAC, is given the target instead.

    Args:
        target_entropy: in nats; None chooses it by the actions.
        initial_alpha: weight of the entropy at the start; None is 0.1.
        learning_rate: of the logarithm of the weight.
        rl_algorithm_cls: constructor of the RL algorithm.
    """
    given: Arguments = {} if initial_alpha is None else {"initial_alpha": initial_alpha}
    if _regulates_entropy(rl_algorithm_cls):
        return _own_target(rl_algorithm_cls, target_entropy, given)
    make = partial(SGDEntropyTargetAlgorithm, target_entropy=target_entropy, optimizer=Adam(lr=learning_rate), **given)
    return {"entropy_target_cls": make}


def _regulates_entropy(algorithm_ctor: Callable[..., Any]) -> bool:
    return "target_entropy" in parameter_owners(algorithm_ctor)


def _own_target(algorithm_ctor: Callable[..., Any], target_entropy: float | None, given: Arguments) -> Arguments:
    if target_entropy is None or given:
        rest = f" and cannot be given {', '.join(given)}" if given else ""
        name = constructor_name(algorithm_ctor)
        raise ValueError(f"{name} regulates its entropy itself{rest}: give the target alone, such as entropy_target=-1")
    return {"rl_algorithm_cls": partial(algorithm_ctor, target_entropy=target_entropy)}


# Weights of several rewards.


@configurable
def lagrangian(
    reward_thresholds: Sequence[float | None],
    learning_rate: float = 1e-2,
    init_weights: float | Sequence[float] = 1.0,
    max_weight: float | None = None,
) -> Arguments:
    """Weighs several rewards until each reaches its threshold.

    Args:
        reward_thresholds: least average of each reward per step; None for one whose weight is not tuned.
        learning_rate: of the weights.
        init_weights: weight(s) at the start.
        max_weight: upper limit of the weights, before they are normalized.
    """
    return _weights(LagrangianRewardWeightAlgorithm, reward_thresholds, learning_rate, init_weights, max_weight)


@configurable
def lagrangian_pred(
    reward_thresholds: Sequence[float | None],
    learning_rate: float = 1e-2,
    init_weights: float | Sequence[float] = 1.0,
    max_weight: float | None = None,
) -> Arguments:
    """The same, by the rewards of evaluations.

    Args:
        reward_thresholds: least average of each reward per step; None for one whose weight is not tuned.
        learning_rate: of the weights.
        init_weights: weight(s) at the start.
        max_weight: upper limit of the weights, before they are normalized.
    """
    return _weights(LagrangianPredRewardWeightAlgorithm, reward_thresholds, learning_rate, init_weights, max_weight)


def _weights(
    cls: type[LagrangianRewardWeightAlgorithm],
    reward_thresholds: Sequence[float | None],
    learning_rate: float,
    init_weights: float | Sequence[float],
    max_weight: float | None,
) -> Arguments:
    make = partial(
        cls,
        reward_thresholds=reward_thresholds,
        optimizer=Adam(lr=learning_rate),
        init_weights=init_weights,
        max_weight=max_weight,
    )
    return {"reward_weight_algorithm_cls": make}
