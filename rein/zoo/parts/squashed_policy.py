"""A normal distribution squashed into the bounds of the action, with a deviation that depends on the state."""

from rein.config import config

config(
    "NormalProjectionNetwork",
    squash_mean=False,
    state_dependent_std=True,
    scale_distribution=True,
    std_bias_initializer_value=0.5413,
)
