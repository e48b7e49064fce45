"""See `rein.compat.sb3.noise`."""

from rein.compat.sb3.noise import (
    ActionNoise,
    NormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
)

__all__ = [
    "ActionNoise",
    "NormalActionNoise",
    "OrnsteinUhlenbeckActionNoise",
]
