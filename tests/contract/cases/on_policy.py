"""On-policy algorithms."""

from functools import partial
from typing import Any

from rein.algorithms.losses import PPOLoss
from rein.algorithms.on_policy import (
    ActorCriticAlgorithm,
    MerlinAlgorithm,
    PPGAlgorithm,
    PPGAuxOptions,
    PPOAlgorithm,
    TracAlgorithm,
)
from rein.algorithms.on_policy.merlin_codecs import merlin_decoder, merlin_encoder
from rein.networks import ActorDistributionRNNNetwork, EncodingNetwork, TransformerCell, ValueRNNNetwork
from tests.contract.world import FRESH, ROLLOUT, Case, adam, default_optimizer

RECURRENT = {
    "actor_network_ctor": partial(ActorDistributionRNNNetwork, lstm_hidden_size=8),
    "value_network_ctor": partial(ValueRNNNetwork, lstm_hidden_size=8),
}
ATTENTION = {
    name: partial(ctor, cell=partial(TransformerCell, num_attention_heads=2, memory_size=3))
    for name, ctor in RECURRENT.items()
}
STORED = dict(unroll_length=8, mini_batch_size=2, num_updates_per_train_iter=2, clear_replay_buffer=False)


def recurrent_a2c() -> dict[str, Any]:
    return {**default_optimizer(), **RECURRENT}


def ppo() -> dict[str, Any]:
    return {"loss_class": PPOLoss, **default_optimizer()}


def recurrent_ppo() -> dict[str, Any]:
    return {**ppo(), **RECURRENT}


def attentive_ppo() -> dict[str, Any]:
    return {**ppo(), **ATTENTION}


def ppg() -> dict[str, Any]:
    return {
        "policy_optimizer": adam(),
        "aux_optimizer": adam(),
        "aux_options": PPGAuxOptions(interval=2, mini_batch_size=4, num_updates_per_train_iter=1),
        "encoding_network_ctor": partial(EncodingNetwork, fc_layer_params=(16,)),
    }


def trac() -> dict[str, Any]:
    return {"ac_algorithm_cls": partial(ActorCriticAlgorithm, **default_optimizer())}


def trac_of_ppo() -> dict[str, Any]:
    return {"ac_algorithm_cls": partial(PPOAlgorithm, **ppo())}


def merlin() -> dict[str, Any]:
    return {
        "encoders": merlin_encoder,
        "decoders": merlin_decoder,
        "latent_dim": 4,
        "lstm_size": (8,),
        "memory_size": 6,
        **default_optimizer(),
    }


CASES = {
    "a2c_bfloat16": Case(ActorCriticAlgorithm, "mixed", {**ROLLOUT, "enable_amp": True}, recurrent_a2c),
    "a2c_discrete": Case(ActorCriticAlgorithm, "discrete", ROLLOUT),
    "a2c_continuous": Case(ActorCriticAlgorithm, "continuous", ROLLOUT),
    "a2c_recurrent_mixed": Case(ActorCriticAlgorithm, "mixed", ROLLOUT, recurrent_a2c),
    "a2c_vector_reward": Case(ActorCriticAlgorithm, "discrete", ROLLOUT, reward_dim=2),
    "merlin_mixed": Case(MerlinAlgorithm, "mixed", ROLLOUT, merlin),
    "merlin_vector_reward": Case(MerlinAlgorithm, "discrete", ROLLOUT, merlin, 2),
    "ppo_bfloat16": Case(PPOAlgorithm, "mixed", {**FRESH, "enable_amp": True}, recurrent_ppo),
    "ppo_discrete": Case(PPOAlgorithm, "discrete", FRESH, ppo),
    "ppo_multi_discrete": Case(PPOAlgorithm, "multi_discrete", FRESH, ppo),
    "ppo_continuous": Case(PPOAlgorithm, "continuous", FRESH, ppo),
    "ppo_mixed": Case(PPOAlgorithm, "mixed", FRESH, ppo),
    "ppo_recurrent": Case(PPOAlgorithm, "discrete", FRESH, recurrent_ppo),
    "ppo_attention": Case(PPOAlgorithm, "mixed", {**FRESH, "use_rollout_state": True}, attentive_ppo),
    "ppo_stored_states": Case(PPOAlgorithm, "mixed", {**FRESH, "use_rollout_state": True}, recurrent_ppo),
    "ppo_vector_reward": Case(PPOAlgorithm, "continuous", FRESH, ppo, 2),
    "ppo_from_a_buffer": Case(PPOAlgorithm, "continuous", STORED, ppo),
    "ppg_discrete": Case(PPGAlgorithm, "discrete", FRESH, ppg),
    "ppg_mixed": Case(PPGAlgorithm, "mixed", FRESH, ppg),
    "trac_continuous": Case(TracAlgorithm, "continuous", ROLLOUT, trac),
    "trac_of_ppo_mixed": Case(TracAlgorithm, "mixed", FRESH, trac_of_ppo),
}
