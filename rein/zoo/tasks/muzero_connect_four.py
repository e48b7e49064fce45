"""MuZero on Connect Four of 5 columns and 4 rows, by games against itself: 32 games at once, 64 simulations per move."""

from rein.algorithms.search import VisitSoftmaxTemperatureByMoves
from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "MuzeroAlgorithm",
    "env": "boards/connect_four",
    "env_steps": 600_000,
    "measure": "share_of_bars",
    "against": {"random": {"win_rate": 0.90}, "one_move_ahead": {"win_rate": 0.60}},
    "bar": 1.0,
    "reference": "who looks one move ahead wins most games against chance",
}

pre_config(
    {
        "learning_rate": 2e-3,
        "final_learning_rate": 1e-4,
        "two_players": True,
        "hidden_size": 256,
        "latent_size": 192,
        "unroll_steps": 4,
        "simulations": 64,
        "exploration_fraction": 0.35,
        "dirichlet_alpha": 1.0,
        # A game has one reward, at its end; at equal weights the policies of all its moves drown it.
        "model_options": {"reward_loss_weight": 10.0, "game_over_loss_weight": 3.0},
        "search_options": {
            # Ends of games are played to win, so that values tell what is won.
            "visit_softmax_temperature_fn": VisitSoftmaxTemperatureByMoves([(6, 1.0), (100, 0.2)]),
        },
    }
)
import_config("bases/muzero.py")

config(
    "create_environment",
    env_name="boards/connect_four",
    num_parallel_environments=32,
    env_kwargs={"parameters": {"rows": 4, "columns": 5}},
)
config("MuzeroRepresentationImpl", symmetry="mirror")
config(
    "TrainerConfig",
    num_env_steps=600_000,
    replay_buffer_length=18_750,  # All of it: models of few games see no patterns.
    unroll_length=8,
    mini_batch_size=512,
    num_updates_per_train_iter=16,
    num_eval_environments=1,
    num_eval_episodes=1,
    num_evals=2,
)
