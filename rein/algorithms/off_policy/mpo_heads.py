"""The two kinds of policies that MPO improves: what E-step and M-step look like for each.

Each head proposes candidate actions at every state with the value that the target critics give them, and compares a new
policy with the target policy. Candidates stand behind the batch, [B, N, ...], as everything that is stored does.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rein import nest
from rein.algorithms.losses.critics import Critics, pessimistic
from rein.distributions import Categorical, Distribution, DistributionSpec, compute_log_probability, kl_divergence
from rein.distributions.base import LocationScale
from rein.nest import Nest
from rein.networks import Network
from rein.specs import BoundedTensorSpec, TensorSpec


class Candidates(NamedTuple):
    """Actions to choose from at each state."""

    action: Nest
    """[B, N, ...]"""
    value: Tensor
    """[B, N], by the target critics."""
    log_prior: Tensor
    """[B, N], log-probability with which the target policy proposes each; sums to one over N."""


class Constraint(NamedTuple):
    """A limit for a divergence, and how its multiplier follows it."""

    name: str
    limit: float
    """Largest mean divergence in nats."""
    scale: float
    """Step size of the multiplier."""
    maximum: float
    """Largest multiplier."""


class NormalHead:
    """Continuous actions: sampled candidates, and a normal policy whose mean and variance are limited apart.

    Abdolmaleki et al. (2018), appendix D.3: the likelihood is taken once with the new means and the old deviations, and once
    the other way round.
    """

    def __init__(self, actor: Network, num_candidates: int, mean: Constraint, variance: Constraint) -> None:
        """Checks the policy.

        Args:
            actor: gives a nest of normal distributions, squashed or not.
            num_candidates: N.
            mean: limit for the divergence by the mean.
            variance: limit for the divergence by the variance.
        """
        for path, spec in nest.flatten_with_paths(actor.output_spec):
            kind = spec.recipe.distribution_type if isinstance(spec, DistributionSpec) else type(spec)
            if not issubclass(kind, LocationScale):
                raise ValueError(
                    f"MPO for continuous actions needs normal distributions, but the actor gives {kind.__name__} at "
                    f"{path!r}: use NormalProjectionNetwork or StableNormalProjectionNetwork"
                )
        if num_candidates < 2:
            raise ValueError(f"sample_action_num is {num_candidates}: at least 2 actions are needed to prefer one")
        self._num_candidates = num_candidates
        self.constraints = (mean, variance)

    @staticmethod
    def make_critics(
        observation_spec: Nest, action_spec: Nest, reward_spec: TensorSpec, ctor: Any, replicas: int
    ) -> Critics:
        """Q(s, a)."""
        return Critics(ctor(input_tensor_spec=(observation_spec, action_spec)), replicas, reward_spec)

    def values(self, critics: nn.Module, observation: Nest, action: Nest) -> Tensor:
        """Q_i(s, a) of stored actions, [B, R]."""
        return critics((observation, action))[0]

    def candidates(self, critics: nn.Module, observation: Nest, policy: Nest) -> Candidates:
        """N samples of the target policy at each state, and their values."""
        num = self._num_candidates
        action = nest.map_structure(lambda one: one.sample((num,)).transpose(0, 1), policy)
        size = nest.get_nest_batch_size(observation)
        repeated = nest.map_structure(lambda x: x.repeat_interleave(num, dim=0), observation)
        flat = nest.map_structure(lambda a: a.flatten(0, 1), action)
        value = pessimistic(critics((repeated, flat))[0], None).reshape(size, num)
        return Candidates(action, value, torch.full_like(value, 1.0 / num).log_())

    @staticmethod
    def log_likelihood(policy: Nest, target: Nest, action: Nest) -> Tensor:
        """Log pi(a; mu, Sigma') + log pi(a; mu', Sigma) of candidates [..., N, event]: [..., N]."""
        leading = nest.flatten(target)[0].batch_shape
        sample_first = nest.map_structure(lambda a: a.movedim(len(leading), 0), action)
        parts = NormalHead._decoupled(policy, target)
        return sum(compute_log_probability(part, sample_first) for part in parts).movedim(0, -1)  # type: ignore[union-attr]

    @staticmethod
    def divergences(policy: Nest, target: Nest) -> tuple[Tensor, ...]:
        """KL(pi' || pi) by the mean alone and by the variance alone, [...] each."""
        return tuple(kl_divergence(target, part) for part in NormalHead._decoupled(policy, target))

    @staticmethod
    def _decoupled(policy: Nest, target: Nest) -> tuple[Nest, Nest]:
        """The policy with the deviations of the target, and the one with its means."""

        def mix(loc: LocationScale, scale: LocationScale) -> Distribution:
            return loc.from_params({"loc": loc.loc, "scale": scale.scale}, loc.settings)

        return nest.map_structure(mix, policy, target), nest.map_structure(mix, target, policy)


class CategoricalHead:
    """One discrete action: every choice is a candidate, and the policy is limited as a whole."""

    def __init__(self, action_spec: Nest, constraint: Constraint) -> None:
        """Checks the action.

        Args:
            action_spec: one discrete scalar action.
            constraint: limit for the divergence.
        """
        if not isinstance(action_spec, BoundedTensorSpec) or action_spec.ndim != 0:
            raise ValueError(
                f"MPO learns continuous actions or one discrete scalar action, but action_spec is {action_spec}: merge "
                "several discrete actions into one, or use PPOAlgorithm"
            )
        self._num_actions = action_spec.num_values
        self.constraints = (constraint,)

    @staticmethod
    def make_critics(
        observation_spec: Nest, action_spec: Nest, reward_spec: TensorSpec, ctor: Any, replicas: int
    ) -> Network:
        """Q(s, .)."""
        if reward_spec.ndim or replicas < 1:
            raise ValueError(f"needs a scalar reward and a critic, got {reward_spec} and {replicas} critics")
        network: Network = ctor(input_tensor_spec=observation_spec, action_spec=action_spec)
        return network.make_parallel(replicas)

    def values(self, critics: nn.Module, observation: Nest, action: Tensor) -> Tensor:
        """Q_i(s, a) of stored actions, [B, R]."""
        values: Tensor = critics(observation)[0]
        index = action.long().reshape(-1, 1, 1).expand(-1, values.shape[1], 1)
        return values.gather(-1, index).squeeze(-1)

    def candidates(self, critics: nn.Module, observation: Nest, policy: Categorical) -> Candidates:
        """All choices at each state, and their values."""
        value = pessimistic(critics(observation)[0], None)
        action = torch.arange(self._num_actions, device=value.device).expand(value.shape)
        return Candidates(action, value, policy.log_probs)

    @staticmethod
    def log_likelihood(policy: Categorical, target: Categorical, action: Tensor) -> Tensor:
        """Log pi(a) of candidates, [..., N]."""
        return policy.log_probs

    @staticmethod
    def divergences(policy: Categorical, target: Categorical) -> tuple[Tensor, ...]:
        """KL(pi' || pi), [...]."""
        return (kl_divergence(target, policy),)
