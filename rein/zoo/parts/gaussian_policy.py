"""A normal distribution with a learnt deviation that does not depend on the state; the environment clips its actions."""

import torch

from rein.config import config

config(
    "NormalProjectionNetwork",
    squash_mean=False,
    state_dependent_std=False,
    std_transform=torch.exp,
    std_bias_initializer_value=0.0,
    projection_output_init_gain=0.01,
)
