"""`OnPolicyAlgorithm`: learns from each rollout once, by what `rollout_step` computed."""

from rein.config import configurable
from rein.data_structures import AlgStep
from rein.framework.rl_algorithm import RLAlgorithm
from rein.nest import Nest


@configurable
class OnPolicyAlgorithm(RLAlgorithm):
    """Base of on-policy algorithms: `calc_loss` gets the infos of `rollout_step`."""

    @property
    def on_policy(self) -> bool:
        """True."""
        return True

    def train_step(self, inputs: Nest, state: Nest, rollout_info: Nest) -> AlgStep:
        """The same as `rollout_step`: for on-policy algorithms used on replayed data."""
        return self.rollout_step(inputs, state)
