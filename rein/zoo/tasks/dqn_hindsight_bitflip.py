"""DQN with hindsight replay on flipping 15 bits, which plain replay never solves."""

from functools import partial

import torch
from torch import Tensor

from rein.config import config, import_config, pre_config
from rein.networks import NestConcat, QNetwork
from rein.transforms import HindsightExperienceTransformer

ENTRY = {
    "algorithm": "DqnAlgorithm",
    "env": "rein/BitFlip-v0",
    "env_steps": 150_000,
    "measure": "success_rate",
    "bar": 0.95,
    "reference": "1: always solved; Andrychowicz et al. 2017, arXiv:1707.01495, section 3.1",
}


def equal_bits_reward(achieved_goal: Tensor, goal: Tensor) -> Tensor:
    """0 where all bits [B, T, num_bits] are equal, -1 elsewhere, [B, T]."""
    return -(achieved_goal != goal).any(-1).to(torch.float32)


pre_config({"final_epsilon": 0.1})
import_config("bases/dqn.py")
import_config("parts/compiled_run.py")

config(
    "create_environment",
    env_name="rein/BitFlip-v0",
    num_parallel_environments=8,
    backend="sync",
    env_kwargs={"num_bits": 15},
)
config(
    "DqnAlgorithm",
    q_network_cls=partial(QNetwork, fc_layer_params=(256,), preprocessing_combiner=NestConcat()),
    target_net_target_action=False,
    target_update_tau=0.05,
    target_update_period=1,
)
config("OneStepTDLoss", gamma=0.98)
config("HindsightExperienceTransformer", reward_fn=equal_bits_reward)
config(
    "TrainerConfig",
    data_transformer_ctor=HindsightExperienceTransformer,
    num_env_steps=150_000,
    replay_buffer_length=20_000,
    num_updates_per_train_iter=4,
    num_eval_environments=20,
)
