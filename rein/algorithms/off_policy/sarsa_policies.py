"""The two kinds of policies that SARSA can derive from its critic: deterministic as in DDPG, stochastic as in SAC."""

from typing import Any, NamedTuple

from torch import Tensor

from rein import nest
from rein.algorithms.off_policy.continuous_actions import ContinuousActions, OrnsteinUhlenbeckNoise, replace_rows
from rein.distributions import epsilon_greedy_sample, rsample_action_distribution, sample_action_distribution
from rein.nest import Nest


class PolicySample(NamedTuple):
    """An action for learning, with gradient to the policy."""

    action: Nest
    log_pi: Any
    """[B], or `()` for a deterministic policy."""


class DeterministicPolicy:
    """The actor gives the action; exploration adds noise to it."""

    has_entropy = False

    def __init__(self, actions: ContinuousActions, noise: OrnsteinUhlenbeckNoise) -> None:
        self._actions, self._noise = actions, noise

    @property
    def noise_spec(self) -> Nest:
        """Specs of the noise that is carried along."""
        return self._actions.state_spec

    def greedy(self, output: Nest, noise: Nest, epsilon: float) -> tuple[Nest, Nest]:
        """The action, with noise for a share `epsilon` of the batch; and the new noise."""
        if epsilon <= 0.0:
            return output, noise
        explored, noise = self.explore(output, PolicySample(output, ()), noise)
        return replace_rows(output, explored, epsilon), noise

    def sample(self, output: Nest) -> PolicySample:
        """The action itself."""
        return PolicySample(output, ())

    def explore(self, output: Nest, sample: PolicySample | None, noise: Nest) -> tuple[Nest, Nest]:
        """The action with noise, without gradient; and the new noise."""
        noise = self._noise.step(noise, output)
        return self._actions.clip(nest.map_structure(lambda a, x: a.detach() + x, output, noise)), noise


class StochasticPolicy:
    """The actor gives a distribution; exploration samples it."""

    has_entropy = True
    noise_spec: Nest = ()

    def greedy(self, output: Nest, noise: Nest, epsilon: float) -> tuple[Nest, Nest]:
        """The mode, or a sample for a share `epsilon` of the batch."""
        return epsilon_greedy_sample(output, epsilon), noise

    def sample(self, output: Nest) -> PolicySample:
        """A reparameterised sample and its log-probability."""
        return PolicySample(*rsample_action_distribution(output, return_log_prob=True))

    def explore(self, output: Nest, sample: PolicySample | None, noise: Nest) -> tuple[Nest, Nest]:
        """`sample` if it was drawn already, else a fresh one, without gradient."""
        if sample is None:
            return sample_action_distribution(output), noise
        return nest.map_structure(Tensor.detach, sample.action), noise
