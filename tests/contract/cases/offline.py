"""Offline algorithms, which can learn from what they do themselves too."""

from functools import partial
from typing import Any

from rein.algorithms.offline import BcAlgorithm, CausalBcAlgorithm, IqlAlgorithm
from rein.networks import (
    ActorDistributionNetwork,
    ActorDistributionRNNNetwork,
    CriticRNNNetwork,
    ValueRNNNetwork,
)
from tests.contract.world import REPLAY, Case, adam

LONGER = {**REPLAY, "mini_batch_length": 3}


def clone() -> dict[str, Any]:
    return {"actor_optimizer": adam(), "actor_network_cls": ActorDistributionNetwork}


def recurrent_clone() -> dict[str, Any]:
    return {**clone(), "actor_network_cls": partial(ActorDistributionRNNNetwork, lstm_hidden_size=8)}


def causal_clone() -> dict[str, Any]:
    return {"actor_optimizer": adam(), "discriminator_optimizer": adam()}


def iql() -> dict[str, Any]:
    optimizers = {"actor_optimizer": adam(), "critic_optimizer": adam(), "value_optimizer": adam()}
    return {**optimizers, "calculate_priority": True}


def recurrent_iql() -> dict[str, Any]:
    return {
        **iql(),
        "actor_network_cls": partial(ActorDistributionRNNNetwork, lstm_hidden_size=8),
        "critic_network_cls": partial(CriticRNNNetwork, lstm_hidden_size=8),
        "v_network_cls": partial(ValueRNNNetwork, lstm_hidden_size=8),
    }


CASES = {
    "bc_mixed": Case(BcAlgorithm, "mixed", REPLAY, clone),
    "bc_discrete_single_steps": Case(BcAlgorithm, "discrete", {**REPLAY, "mini_batch_length": 1}, clone),
    "bc_recurrent": Case(BcAlgorithm, "discrete", LONGER, recurrent_clone),
    "causal_bc": Case(CausalBcAlgorithm, "continuous", REPLAY, causal_clone),
    "iql_prioritized": Case(IqlAlgorithm, "continuous", {**REPLAY, "priority_replay": True}, iql),
    "iql_vector_reward": Case(IqlAlgorithm, "continuous", REPLAY, iql, 2),
    "iql_stored_states": Case(IqlAlgorithm, "continuous", {**LONGER, "use_rollout_state": True}, recurrent_iql),
}
