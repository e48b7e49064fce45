"""MERLIN on a recall task whose cue lies further back than the rollouts reach."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "MerlinAlgorithm",
    "env": "rein/Recall-v0",
    "env_steps": 480_000,
    "bar": 0.99,
    "in_every_seed": True,
    "reference": "1 is optimal; without memory of more than a rollout chance is the best there is, 0.5",
    "notes": "the cue is shown 12 steps before the question, rollouts have 6",
}

pre_config({"learning_rate": 3e-3, "latent_dim": 4})
import_config("bases/merlin.py")

config("create_environment", env_name="rein/Recall-v0", env_kwargs={"delay": 12}, num_parallel_environments=200)
config("merlin_encoder", hidden_layers=(), size=3)
config("merlin_decoder", hidden_layers=(), loss_weight=100.0)
config("MerlinAlgorithm", lstm_size=(4,), memory_size=20)
config("TrainerConfig", num_env_steps=480_000, unroll_length=6, num_eval_environments=20)
