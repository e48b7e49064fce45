"""Agents, and the parts that they are composed of: exploration, regularization and representation."""

from functools import partial
from typing import Any

import torch

from rein.agents import Agent, DynamicActionRepeatAgent, HandcraftedAlgorithm, SimpleCarlaAlgorithm
from rein.algorithms.exploration import DIAYNAlgorithm, ICMAlgorithm, RandomCategoricalGoalGenerator, RNDAlgorithm
from rein.algorithms.off_policy import SacAlgorithm
from rein.algorithms.on_policy import ActorCriticAlgorithm
from rein.algorithms.particle_vi import EnsembleUncertaintyAlgorithm
from rein.algorithms.regularization import (
    EntropyTargetAlgorithm,
    LagrangianPredRewardWeightAlgorithm,
    LagrangianRewardWeightAlgorithm,
    NestedEntropyTargetAlgorithm,
    PriorActor,
    SGDEntropyTargetAlgorithm,
)
from rein.algorithms.representation import EncodingAlgorithm, PredictiveRepresentationLearner, SimpleDecoder
from rein.networks import (
    ActorDistributionNetwork,
    CriticNetwork,
    EncodingNetwork,
    LSTMEncodingNetwork,
    NestConcat,
    QNetwork,
    ValueNetwork,
)
from rein.networks.layers import identity
from rein.specs import BoundedTensorSpec, TensorSpec
from tests.contract.world import REPLAY, ROLLOUT, Case, adam

# Goals make observations nested.
COMBINED = {"preprocessing_combiner": NestConcat(), "fc_layer_params": (8,)}
A2C = partial(
    ActorCriticAlgorithm,
    actor_network_ctor=partial(ActorDistributionNetwork, **COMBINED),
    value_network_ctor=partial(ValueNetwork, **COMBINED),
)
SAC = partial(
    SacAlgorithm,
    actor_network_cls=partial(ActorDistributionNetwork, **COMBINED),
    critic_network_cls=partial(
        CriticNetwork, observation_preprocessing_combiner=NestConcat(), joint_fc_layer_params=(8,)
    ),
    q_network_cls=partial(QNetwork, **COMBINED),
)


def encoding(**arguments: Any) -> Any:
    return partial(EncodingNetwork, fc_layer_params=(4,), **arguments)


def icm(observation_spec: Any, action_spec: Any) -> ICMAlgorithm:
    return ICMAlgorithm(action_spec, observation_spec, hidden_size=8, encoding_net=encoding()(observation_spec))


def rnd(observation_spec: Any, action_spec: Any) -> RNDAlgorithm:
    target, predictor = encoding()(observation_spec), encoding()(observation_spec)
    return RNDAlgorithm(target, predictor, observation_spec=observation_spec)


def goals(observation_spec: Any, action_spec: Any) -> RandomCategoricalGoalGenerator:
    return RandomCategoricalGoalGenerator(observation_spec, 3)


def diayn(observation_spec: Any, action_spec: Any) -> DIAYNAlgorithm:
    skill_spec = BoundedTensorSpec((), torch.int64, 0, 2)
    return DIAYNAlgorithm(skill_spec, encoding()(observation_spec[0]))


def reward_decoder(latent_spec: TensorSpec) -> SimpleDecoder:
    output = {"output_tensor_spec": TensorSpec(()), "last_layer_size": 1, "last_activation": identity}
    return SimpleDecoder(latent_spec, "reward", partial(EncodingNetwork, **output))


def agent(rl: Any, **parts: Any) -> dict[str, Any]:
    return {"rl_algorithm_cls": rl, "optimizer": adam(), **parts}


def predictive(rl: Any) -> dict[str, Any]:
    learner = partial(
        PredictiveRepresentationLearner,
        num_unroll_steps=2,
        decoder_ctor=reward_decoder,
        encoding_net_ctor=encoding(),
        dynamics_net_ctor=partial(LSTMEncodingNetwork, hidden_size=4),
        encoding_optimizer=adam(),
    )
    return agent(rl, representation_learner_cls=learner)


def reward_weights(cls: Any) -> dict[str, Any]:
    part = partial(cls, reward_thresholds=[None, 0.5], optimizer=adam())
    return agent(A2C, reward_weight_algorithm_cls=part)


def diayn_parts() -> dict[str, Any]:
    return agent(A2C, goal_generator=goals, intrinsic_reward_module=diayn, extrinsic_reward_coef=0.0)


def ensemble(observation_spec: Any, action_spec: Any) -> EnsembleUncertaintyAlgorithm:
    encoder = encoding()(observation_spec)
    return EnsembleUncertaintyAlgorithm(encoder, observation_spec, num_networks=3, hidden_layers=(8,), output_dim=2)


def ensemble_parts() -> dict[str, Any]:
    return agent(A2C, intrinsic_reward_module=ensemble)


def icm_parts() -> dict[str, Any]:
    encoder = partial(EncodingAlgorithm, encoder_cls=encoding(), optimizer=adam())
    target = partial(SGDEntropyTargetAlgorithm, optimizer=adam())
    return agent(A2C, representation_learner_cls=encoder, intrinsic_reward_module=icm, entropy_target_cls=target)


def rnd_parts() -> dict[str, Any]:
    return agent(A2C, intrinsic_reward_module=rnd, entropy_target_cls=EntropyTargetAlgorithm)


def sac_parts() -> dict[str, Any]:
    return agent(SAC, goal_generator=goals)


def nested_target() -> dict[str, Any]:
    return agent(A2C, entropy_target_cls=NestedEntropyTargetAlgorithm)


def repeating() -> dict[str, Any]:
    return agent(SAC, K=3)


CASES = {
    "agent_icm_encoding_sgd_entropy": Case(Agent, "discrete", ROLLOUT, icm_parts),
    "agent_ensemble_uncertainty": Case(Agent, "discrete", ROLLOUT, ensemble_parts),
    "agent_rnd_entropy": Case(Agent, "continuous", ROLLOUT, rnd_parts),
    "agent_diayn": Case(Agent, "discrete", ROLLOUT, diayn_parts),
    "agent_nested_entropy": Case(Agent, "mixed", ROLLOUT, nested_target),
    "agent_predictive_sac": Case(Agent, "continuous", {**REPLAY, "mini_batch_length": 3}, partial(predictive, SAC)),
    "agent_goals_sac": Case(Agent, "continuous", REPLAY, sac_parts),
    "agent_reward_weights": Case(
        Agent, "discrete", ROLLOUT, partial(reward_weights, LagrangianRewardWeightAlgorithm), 2
    ),
    "agent_predicted_reward_weights": Case(
        Agent,
        "discrete",
        {**ROLLOUT, "evaluate": True},
        partial(reward_weights, LagrangianPredRewardWeightAlgorithm),
        2,
        still=("_reward_weight_algorithm._lambdas",),  # evaluation does
    ),
    "dynamic_action_repeat": Case(DynamicActionRepeatAgent, "continuous", REPLAY, repeating),
}

NOT_BUILT = {
    PriorActor: "the base of priors",
    HandcraftedAlgorithm: "the base of rules",
    SimpleCarlaAlgorithm: "a rule: it learns nothing, see tests/agents/test_handcrafted.py",
}
