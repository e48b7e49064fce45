"""What confs wrap around Atari games."""

from rein.envs.suites.atari import DMAtariPreprocessing

__all__ = ["DMAtariPreprocessing"]
