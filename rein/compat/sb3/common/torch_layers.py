"""See `rein.compat.sb3.extractors`."""

from rein.compat.sb3.extractors import BaseFeaturesExtractor

__all__ = ["BaseFeaturesExtractor"]
