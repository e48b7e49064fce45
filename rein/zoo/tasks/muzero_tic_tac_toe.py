"""MuZero on tic-tac-toe, by games against itself: 32 games at once, 64 simulations per move."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "MuzeroAlgorithm",
    "env": "boards/tic_tac_toe",
    "env_steps": 400_000,
    "measure": "share_of_bars",
    "against": {"random": {"not_lost_rate": 0.98}, "minimax_erring": {"not_lost_rate": 0.85}},
    "bar": 1.0,
    "reference": "perfect play never loses",
}

pre_config(
    {
        "learning_rate": 3e-3,
        "final_learning_rate": 3e-4,
        "two_players": True,
        "hidden_size": 128,
        "unroll_steps": 3,
        "simulations": 64,
        "exploration_fraction": 0.5,
        "dirichlet_alpha": 1.0,
        "search_options": {"predict_num_simulations": 256},
    }
)
import_config("bases/muzero.py")

config("create_environment", env_name="boards/tic_tac_toe", num_parallel_environments=32)
config(
    "TrainerConfig",
    num_env_steps=400_000,
    replay_buffer_length=1_000,
    unroll_length=8,
    mini_batch_size=512,
    num_updates_per_train_iter=8,
    num_eval_environments=1,
    num_eval_episodes=1,
    num_evals=2,
)
