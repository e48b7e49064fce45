"""Optimizers that are constructed without parameters and bound to an algorithm's later."""

from rein.optimizers.adam_tf import AdamTF
from rein.optimizers.bound_later import BoundLater
from rein.optimizers.rmsprop_tf import RMSpropTF
from rein.optimizers.torch_optimizers import SGD, Adam, AdamW, NAdam, RAdam, RMSprop
from rein.optimizers.trusted_updater import StepAdjustment, TrustedUpdater

__all__ = [
    "SGD",
    "Adam",
    "AdamTF",
    "AdamW",
    "BoundLater",
    "NAdam",
    "RAdam",
    "RMSprop",
    "RMSpropTF",
    "StepAdjustment",
    "TrustedUpdater",
]
