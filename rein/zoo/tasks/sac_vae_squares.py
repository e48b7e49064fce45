"""SAC on images of bouncing squares, which it sees by the code of a variational auto-encoder."""

from functools import partial

from rein.config import config, import_config, pre_config
from rein.transforms import ImageScaleTransformer

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "rein/BouncingSquares-v0",
    "env_steps": 12_000,
    "bar": 30,
    "reference": "12 is about what actions at random earn, of 50 steps; sac_random_code_squares has an untrained encoder",
}

pre_config({"learning_rate": 1e-3, "hidden_layers": (128, 128)})
import_config("bases/sac.py")

config(
    "create_environment",
    env_name="rein/BouncingSquares-v0",
    env_kwargs={"image_size": 16, "num_squares": 1, "square_size": 4, "episode_length": 50},
    num_parallel_environments=4,
)
config("compose_agent", parts=["vae(z_dim=16, hidden_layers=(64,))"])
config("SacAlgorithm", use_entropy_reward=False, target_entropy=0.3, target_update_tau=0.01)
config("OneStepTDLoss", gamma=0.95)
config(
    "TrainerConfig",
    num_env_steps=12_000,
    initial_collect_steps=1000,
    data_transformer_ctor=partial(ImageScaleTransformer, min=0.0),
    replay_buffer_length=7_500,
    unroll_length=4,
    num_updates_per_train_iter=4,
    mini_batch_size=64,
    num_eval_environments=10,
)
