"""`OffPolicyAlgorithm`: learns by `train_step` from stored experience."""

from rein.config import configurable
from rein.framework.rl_algorithm import RLAlgorithm


@configurable
class OffPolicyAlgorithm(RLAlgorithm):
    """Base of off-policy algorithms: `calc_loss` gets the infos of `train_step` on stored experience."""

    @property
    def on_policy(self) -> bool:
        """False."""
        return False
