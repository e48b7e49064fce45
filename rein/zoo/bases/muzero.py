"""MuZero: tree search with a model of small fully connected networks, which learns from what the search finds."""

from functools import partial
from typing import Any

from rein.algorithms.search import (
    EpsilonGreedySampler,
    MuzeroAlgorithm,
    MuzeroRepresentationImpl,
    SimpleMCTSModel,
    create_board_game_mcts,
    create_control_mcts,
)
from rein.algorithms.search.board_networks import (
    create_board_dynamics_net,
    create_board_encoding_net,
    create_board_prediction_net,
)
from rein.algorithms.search.simple_networks import (
    create_simple_dynamics_net,
    create_simple_encoding_net,
    create_simple_prediction_net,
)
from rein.config import config, define_config, import_config
from rein.envs.create import is_self_play_chosen
from rein.optimizers import Adam
from rein.runtime import LinearScheduler, scheduled

ENTRY = {
    "algorithm": "MuzeroAlgorithm",
    "actions": "one discrete; one vector with sampled_actions",
    "reference": "Schrittwieser et al. 2020, arXiv:1911.08265; reanalyze: arXiv:2104.06294",
}

import_config("parts/replay_run.py")

learning_rate = define_config("learning_rate", 1e-3)
final_learning_rate = define_config("final_learning_rate", learning_rate)
latent_size = define_config("latent_size", 64)
hidden_size = define_config("hidden_size", 64)
hidden_layers = tuple(define_config("hidden_layers", (hidden_size,)))
board_channels = define_config("board_channels", 0)  # Planes of convolutional networks; 0: fully connected ones.
two_players = define_config("two_players", is_self_play_chosen())
discount = define_config("discount", 1.0 if two_players else 0.99)
simulations = define_config("simulations", 25)
unroll_steps = define_config("unroll_steps", 5)
td_steps = define_config("td_steps", -1 if two_players else 10)
sampled_actions = define_config("sampled_actions", None)
reanalyze_ratio = define_config("reanalyze_ratio", 0.0)
reanalyze_simulations = define_config("reanalyze_simulations", simulations)
reanalyze_td_steps = define_config("reanalyze_td_steps", 5)
target_update_period = define_config("target_update_period", 100)
exploration_fraction = define_config("exploration_fraction", 0.25)
dirichlet_alpha = define_config("dirichlet_alpha", 0.3)
search_options = define_config("search_options", {})  # Other arguments of `MCTSAlgorithm`.
model_options = define_config("model_options", {})  # Those of `SimpleMCTSModel`, such as weights of its losses.

networks: dict[str, Any]
if board_channels:
    networks = {
        "encoding_net_ctor": partial(create_board_encoding_net, channels=board_channels),
        "dynamics_net_ctor": create_board_dynamics_net,
        "prediction_net_ctor": partial(create_board_prediction_net, hidden_size=hidden_size),
    }
else:
    networks = {
        "encoding_net_ctor": partial(create_simple_encoding_net, fc_layer_params=(*hidden_layers, latent_size)),
        "dynamics_net_ctor": partial(create_simple_dynamics_net, fc_layer_params=hidden_layers),
        "prediction_net_ctor": partial(create_simple_prediction_net, fc_layer_params=hidden_layers),
    }
model = partial(SimpleMCTSModel, num_sampled_actions=sampled_actions, **networks, **model_options)
mcts = partial(
    partial(create_board_game_mcts, dirichlet_alpha=dirichlet_alpha) if two_players else create_control_mcts,
    root_exploration_fraction=exploration_fraction,
    predict_exploration_fraction=0.0,
    predict_action_sampler=EpsilonGreedySampler(0.0),
    **search_options,
)
config(
    "MuzeroAlgorithm",
    discount=discount,
    mcts_algorithm_ctor=partial(mcts, num_simulations=simulations),
    representation_learner_ctor=partial(
        MuzeroRepresentationImpl,
        model_ctor=model,
        num_unroll_steps=unroll_steps,
        td_steps=td_steps,
        reanalyze_ratio=reanalyze_ratio,
        reanalyze_td_steps=reanalyze_td_steps,
        target_update_period=target_update_period,
        reanalyze_algorithm_ctor=partial(mcts, num_simulations=reanalyze_simulations),
    ),
    optimizer=Adam(
        lr=scheduled(learning_rate, lambda lr: LinearScheduler("percent", ((0.0, lr), (1.0, final_learning_rate)))),
        gradient_clipping=10.0,
        clip_by_global_norm=True,
    ),
)
config(
    "TrainerConfig",
    algorithm_ctor=MuzeroAlgorithm,
    mini_batch_length=1,
    mini_batch_size=128,
    unroll_length=8,
    num_updates_per_train_iter=8,
    temporally_independent_train_step=True,
    use_rollout_state=reanalyze_ratio > 0.0,
)
