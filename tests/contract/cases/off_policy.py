"""Off-policy algorithms."""

from functools import partial
from typing import Any

from rein.algorithms.off_policy import (
    DdpgAlgorithm,
    DqnAlgorithm,
    MdqAlgorithm,
    MpoAlgorithm,
    OacAlgorithm,
    QrsacAlgorithm,
    SacAlgorithm,
    SarsaAlgorithm,
    TaacAlgorithm,
    TaacLAlgorithm,
    TaacQAlgorithm,
    Td3Algorithm,
)
from rein.algorithms.regularization import SameActionPriorActor, UniformPriorActor
from rein.networks import (
    ActionQuantizer,
    ActorDistributionNetwork,
    ActorDistributionRNNNetwork,
    ActorNetwork,
    CriticNetwork,
    CriticRNNNetwork,
    MdqCriticNetwork,
    NestConcat,
    NormalProjectionNetwork,
    QNetwork,
)
from tests.contract.world import REPLAY, Case, adam

PROJECTION = partial(NormalProjectionNetwork, state_dependent_std=True, scale_distribution=True)
STOCHASTIC = partial(ActorDistributionNetwork, fc_layer_params=(8,), continuous_projection_net_ctor=PROJECTION)
CRITIC = partial(CriticNetwork, joint_fc_layer_params=(8,))


# A recurrent weight matters from the second step on, and the last step has no loss.
LONGER = {**REPLAY, "mini_batch_length": 3}


def actor_and_critic() -> dict[str, Any]:
    return {"actor_optimizer": adam(), "critic_optimizer": adam()}


def deterministic() -> dict[str, Any]:
    return {
        "actor_network_ctor": partial(ActorNetwork, fc_layer_params=(8,)),
        "critic_network_ctor": CRITIC,
        **actor_and_critic(),
    }


def mpo() -> dict[str, Any]:
    return {**deterministic(), "actor_network_ctor": STOCHASTIC}


def sarsa() -> dict[str, Any]:
    return {**mpo(), "alpha_optimizer": adam()}


def recurrent_sarsa() -> dict[str, Any]:
    rnn = {"lstm_hidden_size": 8, "continuous_projection_net_ctor": PROJECTION}
    return {
        **sarsa(),
        "actor_network_ctor": partial(ActorDistributionRNNNetwork, **rnn),
        "critic_network_ctor": partial(CriticRNNNetwork, lstm_hidden_size=8),
    }


def dqn() -> dict[str, Any]:
    return {"q_network_cls": QNetwork, "q_optimizer": adam()}


def mdq_network(specs: Any) -> MdqCriticNetwork:
    return MdqCriticNetwork(specs, ActionQuantizer(specs[1], 9), mid_encoding_layer_params=(8,))


def mdq() -> dict[str, Any]:
    return {"critic_network": mdq_network, "critic_optimizer": adam(), "alpha_optimizer": adam()}


def sac() -> dict[str, Any]:
    return {**actor_and_critic(), "alpha_optimizer": adam()}


def sac_mixed() -> dict[str, Any]:
    return {**sac(), "q_network_cls": partial(QNetwork, preprocessing_combiner=NestConcat())}


def sac_with(prior: Any) -> dict[str, Any]:
    return {**small_sac(), "prior_actor_ctor": prior, "target_kld_per_dim": 1.0}


def small_sac() -> dict[str, Any]:
    return {**sac(), "actor_network_cls": STOCHASTIC, "critic_network_cls": CRITIC}


CASES = {
    "ddpg": Case(DdpgAlgorithm, "continuous", REPLAY, deterministic),
    "td3": Case(Td3Algorithm, "continuous", REPLAY, deterministic),
    "dqn": Case(DqnAlgorithm, "discrete", REPLAY, dqn),
    "mdq": Case(MdqAlgorithm, "continuous", REPLAY, mdq),
    "mpo": Case(MpoAlgorithm, "continuous", REPLAY, mpo),
    "sarsa": Case(SarsaAlgorithm, "continuous", REPLAY, sarsa),
    "sarsa_recurrent": Case(SarsaAlgorithm, "continuous", LONGER, recurrent_sarsa),
    "sac_continuous": Case(SacAlgorithm, "continuous", REPLAY, sac),
    "sac_discrete": Case(SacAlgorithm, "discrete", REPLAY, sac),
    "sac_mixed": Case(SacAlgorithm, "mixed", REPLAY, sac_mixed),
    "sac_same_action_prior": Case(SacAlgorithm, "continuous", REPLAY, partial(sac_with, SameActionPriorActor)),
    "sac_uniform_prior": Case(SacAlgorithm, "continuous", REPLAY, partial(sac_with, UniformPriorActor)),
    "oac": Case(OacAlgorithm, "continuous", REPLAY, sac),
    "qrsac": Case(QrsacAlgorithm, "continuous", REPLAY, small_sac),
    "taac": Case(TaacAlgorithm, "continuous", LONGER, small_sac),
    "taac_linear": Case(TaacLAlgorithm, "continuous", LONGER, small_sac),
    "taac_quadratic": Case(TaacQAlgorithm, "continuous", LONGER, small_sac),
}
