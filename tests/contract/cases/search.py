"""Tree search with learnt models."""

from functools import partial
from typing import Any

from rein.agents import Agent
from rein.algorithms.losses import PPOLoss
from rein.algorithms.on_policy import PPOAlgorithm
from rein.algorithms.search import (
    MuzeroAlgorithm,
    MuzeroRepresentationImpl,
    MuzeroRepresentationLearner,
    MuzeroRepresentationTrainingOptions,
    SimpleMCTSModel,
    create_control_mcts,
)
from rein.algorithms.search.simple_networks import (
    create_simple_dynamics_net,
    create_simple_encoding_net,
    create_simple_prediction_net,
)
from tests.contract.world import FRESH, REPLAY, Case, adam

MCTS = partial(create_control_mcts, num_simulations=4)
MODEL = partial(
    SimpleMCTSModel,
    encoding_net_ctor=partial(create_simple_encoding_net, fc_layer_params=(8,)),
    dynamics_net_ctor=partial(create_simple_dynamics_net, fc_layer_params=(8,)),
    prediction_net_ctor=partial(create_simple_prediction_net, fc_layer_params=(8,)),
)
STORED = {**REPLAY, "use_rollout_state": True, "priority_replay": True}


def muzero(model: Any = MODEL, **learner: Any) -> dict[str, Any]:
    impl = partial(MuzeroRepresentationImpl, model_ctor=model, num_unroll_steps=2, td_steps=3, **learner)
    return {
        "discount": 0.9,
        "representation_learner_ctor": impl,
        "mcts_algorithm_ctor": MCTS,
        "optimizer": adam(),
    }


def sampled() -> dict[str, Any]:
    return muzero(partial(MODEL, num_sampled_actions=3), train_repr_prediction=True)


def reanalyzing() -> dict[str, Any]:
    return muzero(reanalyze_algorithm_ctor=MCTS, reanalyze_ratio=0.5, reanalyze_td_steps=2, target_update_period=1)


def representation() -> dict[str, Any]:
    impl = partial(
        MuzeroRepresentationImpl,
        model_ctor=MODEL,
        num_unroll_steps=2,
        td_steps=3,
        discount=0.9,
        train_policy=False,
        optimizer=adam(),
    )
    options = MuzeroRepresentationTrainingOptions(
        mini_batch_size=4, num_updates_per_train_iter=2, replay_buffer_length=50, initial_collect_steps=8
    )
    learner = partial(MuzeroRepresentationLearner, training_options=options, impl_cls=impl)
    return {
        "rl_algorithm_cls": partial(PPOAlgorithm, loss_class=PPOLoss),
        "representation_learner_cls": learner,
        "optimizer": adam(),
    }


CASES = {
    "muzero": Case(MuzeroAlgorithm, "discrete", REPLAY, muzero),
    "muzero_sampled_candidates": Case(MuzeroAlgorithm, "continuous", REPLAY, sampled),
    "muzero_reanalyzing": Case(MuzeroAlgorithm, "discrete", STORED, reanalyzing),
    "agent_ppo_on_muzero_representation": Case(Agent, "discrete", FRESH, representation),
}
