"""Callbacks: code of your own that sees a run go on, records metrics, and may end it; and some that are ready."""

from rein.training.callbacks.callback import Callback, CallbackError
from rein.training.callbacks.creation import create_callbacks
from rein.training.callbacks.keeping import KeepBest, RecordVideos
from rein.training.callbacks.runner import CallbackRunner
from rein.training.callbacks.stopping import StopAtReturn, StopWithoutImprovement
from rein.training.callbacks.training import Training

__all__ = [
    "Callback",
    "CallbackError",
    "CallbackRunner",
    "KeepBest",
    "RecordVideos",
    "StopAtReturn",
    "StopWithoutImprovement",
    "Training",
    "create_callbacks",
]
