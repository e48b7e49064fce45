"""MuZero on Connect Four of 5 columns and 4 rows, by games against itself: 32 games at once, 64 simulations per move."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "MuzeroAlgorithm",
    "env": "boards/connect_four",
    "env_steps": 200_000,
    "measure": "share_of_bars",
    "against": {"random": {"win_rate": 0.90}, "one_move_ahead": {"win_rate": 0.60}},
    "bar": 1.0,
    "reference": "who looks one move ahead wins most games against chance",
}

pre_config(
    {
        "learning_rate": 3e-3,
        "final_learning_rate": 3e-4,
        "two_players": True,
        "hidden_size": 128,
        "unroll_steps": 3,
        "simulations": 64,
        "search_options": {"predict_num_simulations": 256},
    }
)
import_config("bases/muzero.py")

config(
    "create_environment",
    env_name="boards/connect_four",
    num_parallel_environments=32,
    env_kwargs={"parameters": {"rows": 4, "columns": 5}},
)
config(
    "TrainerConfig",
    num_env_steps=200_000,
    replay_buffer_length=1_000,
    unroll_length=8,
    mini_batch_size=512,
    num_updates_per_train_iter=8,
    num_eval_environments=1,
    num_eval_episodes=1,
    num_evals=2,
)
