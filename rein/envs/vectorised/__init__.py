"""Classic control worlds whose whole batch is stepped by one compiled loop, bit for bit as Gymnasium steps them."""

from rein.envs.vectorised.classic import ClassicControlEnvironment, has_exact_kernel

__all__ = ["ClassicControlEnvironment", "has_exact_kernel"]
