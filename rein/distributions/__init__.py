"""Distributions of actions and latents, nests of them, and their conversion to tensors and back."""

from rein.distributions.base import Distribution
from rein.distributions.beta import Beta
from rein.distributions.bounded_normal import ClippedNormal, TruncatedNormal
from rein.distributions.bounds import Bounds
from rein.distributions.categorical import (
    Categorical,
    MultiCategorical,
    OneHotCategoricalGumbelSoftmax,
    OneHotCategoricalStraightThrough,
)
from rein.distributions.deterministic import Deterministic
from rein.distributions.mixture import Mixture
from rein.distributions.normal import DiagNormal, SquashedNormal

__all__ = [
    "Beta",
    "Bounds",
    "Categorical",
    "ClippedNormal",
    "Deterministic",
    "DiagNormal",
    "Distribution",
    "Mixture",
    "MultiCategorical",
    "OneHotCategoricalGumbelSoftmax",
    "OneHotCategoricalStraightThrough",
    "SquashedNormal",
    "TruncatedNormal",
]
