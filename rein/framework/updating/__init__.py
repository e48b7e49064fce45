"""From stored experience to new parameters.

`replay_training` owns what learning from stored data needs and drives it; `gradients` is one update, computed and then
applied; `compilation` makes one graph of an update; `offline_data` is a saved buffer
beside the run's own.
"""

from rein.framework.updating.finite import NonFiniteGradientError, NonFiniteParametersError, check_finite_state
from rein.framework.updating.gradients import Batch, Gradients, NonFiniteLossError, apply_gradients, compute_gradients
from rein.framework.updating.replay_training import ReplayTraining
from rein.framework.updating.settings import UpdateSettings

__all__ = [
    "Batch",
    "Gradients",
    "NonFiniteGradientError",
    "NonFiniteLossError",
    "NonFiniteParametersError",
    "ReplayTraining",
    "UpdateSettings",
    "apply_gradients",
    "check_finite_state",
    "compute_gradients",
]
