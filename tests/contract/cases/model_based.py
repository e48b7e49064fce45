"""Algorithms that plan with a learnt model."""

from functools import partial
from typing import Any

from rein.agents import Agent
from rein.algorithms.model_based import (
    CEMPlanAlgorithm,
    DeterministicDynamicsAlgorithm,
    DynamicsLearningAlgorithm,
    FixedRewardFunction,
    LatentMbrlAlgorithm,
    LearnedRewardFunction,
    MbrlAlgorithm,
    PlanAlgorithm,
    RandomShootingAlgorithm,
    RewardEstimationAlgorithm,
    StochasticDynamicsAlgorithm,
)
from rein.algorithms.representation import PredictiveRepresentationLearner, SimpleDecoder
from rein.networks import EncodingNetwork, LSTMEncodingNetwork
from rein.networks.layers import identity
from rein.specs import TensorSpec
from tests.contract.world import REPLAY, Case, adam

SHOOTING = partial(RandomShootingAlgorithm, population_size=6, planning_horizon=3)
CEM = partial(CEMPlanAlgorithm, population_size=6, planning_horizon=3, elite_size=2, max_iter_num=2)
STORED = {**REPLAY, "mini_batch_length": 1, "use_rollout_state": True}


def distance(observation: Any, action: Any) -> Any:
    return -observation.square().sum(-1) - action.square().sum(-1)


def known() -> dict[str, Any]:
    return {
        "reward_module": FixedRewardFunction(distance),
        "planner_module_ctor": SHOOTING,
        "dynamics_module_ctor": partial(DeterministicDynamicsAlgorithm, hidden_size=8),
        "dynamics_optimizer": adam(),
    }


def learnt() -> dict[str, Any]:
    return {
        "reward_module": partial(LearnedRewardFunction, hidden_size=8),
        "planner_module_ctor": CEM,
        "dynamics_module_ctor": partial(StochasticDynamicsAlgorithm, hidden_size=8, num_replicas=2),
        "particles_per_replica": 2,
        "dynamics_optimizer": adam(),
        "reward_optimizer": adam(),
    }


def reward_decoder(latent_spec: TensorSpec) -> SimpleDecoder:
    output = {"output_tensor_spec": TensorSpec(()), "last_layer_size": 1, "last_activation": identity}
    return SimpleDecoder(latent_spec, "reward", partial(EncodingNetwork, **output))


def latent() -> dict[str, Any]:
    learner = partial(
        PredictiveRepresentationLearner,
        num_unroll_steps=3,
        decoder_ctor=reward_decoder,
        encoding_net_ctor=partial(EncodingNetwork, fc_layer_params=(4,)),
        dynamics_net_ctor=partial(LSTMEncodingNetwork, hidden_size=4),
    )
    rl = partial(LatentMbrlAlgorithm, planner_module_ctor=CEM)
    return {"rl_algorithm_cls": rl, "representation_learner_cls": learner, "optimizer": adam()}


CASES = {
    "mbrl_shooting": Case(MbrlAlgorithm, "continuous", REPLAY, known),
    "mbrl_stored_states": Case(MbrlAlgorithm, "continuous", STORED, known),
    "mbrl_cem_ensemble_learnt_reward": Case(MbrlAlgorithm, "continuous", REPLAY, learnt),
    "mbrl_learnt_vector_reward": Case(MbrlAlgorithm, "continuous", REPLAY, learnt, 2),
    "agent_latent_mbrl": Case(Agent, "continuous", REPLAY, latent),
}

NOT_BUILT = {
    DynamicsLearningAlgorithm: "the base of models of the dynamics",
    RewardEstimationAlgorithm: "the base of rewards in imagination",
    PlanAlgorithm: "the base of planners",
}
