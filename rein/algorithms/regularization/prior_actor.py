"""Priors for policies: what an agent would do if it had learnt nothing.

An algorithm with KL regularization stays near a prior pi_0 in the place of keeping a high entropy. A prior has nothing to
learn. Its output is the distribution of the next action.
"""

from typing import Any

import torch
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.data_structures import AlgStep, TimeStep
from rein.distributions import Beta, Bounds, Categorical, Distribution, Mixture
from rein.distributions import TruncatedNormal as BoundedNormal
from rein.framework import Algorithm
from rein.nest import Nest
from rein.specs import BoundedTensorSpec


class TruncatedNormal(BoundedNormal):
    """Normal distributions conditioned on [low, high], each element by itself.

    Args:
        loc: [...], means of the normals.
        scale: [...], standard deviations of the normals.
        low: [...], lower ends.
        high: [...], upper ends.
        validate_args: check that `scale` is positive and `low` below `high`; None does not.
    """

    def __init__(
        self, loc: Tensor, scale: Tensor, low: Tensor, high: Tensor, validate_args: bool | None = None
    ) -> None:
        if validate_args and not bool((scale > 0).all()):
            raise ValueError(f"scale must be positive, got {scale}")
        if validate_args and not bool(torch.as_tensor(low < high).all()):
            raise ValueError(f"low must be below high, got {low} and {high}")
        super().__init__(loc, scale, low, high, event_ndims=0)

    @property
    def settings(self) -> dict[str, Any]:
        """Constructor arguments that are not batched parameters."""
        return {"low": self.bounds.low, "high": self.bounds.high}


class _Independent(Distribution):
    """The elements of an action, each with a distribution of its own, as one event."""

    has_rsample = False
    has_exact_entropy = False

    def __init__(self, elements: Distribution, event_ndims: int) -> None:
        self.elements = elements
        self.event_ndims = event_ndims

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of what `log_prob` gives for one sample."""
        shape = self.elements.batch_shape
        return shape[: len(shape) - self.event_ndims]

    @property
    def event_shape(self) -> torch.Size:
        """Shape of one event."""
        shape = self.elements.batch_shape
        return shape[len(shape) - self.event_ndims :]

    @property
    def mode(self) -> Tensor:
        """[batch, event] the mode of each element."""
        return self.elements.mode

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        """Returns samples, [sample_shape, batch, event]."""
        return self.elements.sample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Returns the log density, [sample_shape, batch]."""
        elementwise = self.elements.log_prob(value)
        return elementwise.flatten(-self.event_ndims).sum(-1) if self.event_ndims else elementwise


@configurable
class PriorActor(Algorithm):
    """Base of priors: the same distribution for evaluation, rollout and training."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        debug_summaries: bool = False,
        name: str = "PriorActor",
    ) -> None:
        """Makes the prior.

        Args:
            observation_spec: specs of the observation.
            action_spec: bounded specs of the action.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        super().__init__(debug_summaries=debug_summaries, name=name)
        for path, spec in nest.flatten_with_paths(action_spec):
            if not isinstance(spec, BoundedTensorSpec):
                raise ValueError(f"{name}: action {path!r} is {spec!r}: give a BoundedTensorSpec")
        self._action_spec = action_spec

    def prior(self, inputs: TimeStep) -> Nest:
        """A nest of distributions of the next action, batch shape [B]."""
        raise NotImplementedError(f"{type(self).__name__} must define prior(inputs)")

    def predict_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        """The prior."""
        return AlgStep(output=self.prior(inputs))

    def rollout_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        """The prior."""
        return AlgStep(output=self.prior(inputs))

    def train_step(self, inputs: TimeStep, state: Nest, rollout_info: Nest = ()) -> AlgStep:
        """The prior."""
        return AlgStep(output=self.prior(inputs))


@configurable
class SameActionPriorActor(PriorActor):
    """The next action is probably like the previous one.

    Each element is a mixture of a flat truncated normal around the middle of its range, with the range as deviation, and
    a sharp one around the previous action. At the first step of an episode it is the flat one alone.
    """

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        same_action_noise: float = 0.1,
        same_action_prob: float = 0.9,
        debug_summaries: bool = False,
        name: str = "SameActionPriorActor",
    ) -> None:
        """Makes the prior.

        Args:
            observation_spec: specs of the observation.
            action_spec: bounded continuous specs of the action.
            same_action_noise: deviation of the sharp component, as a share of the range.
            same_action_prob: weight of the sharp component after the first step.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        super().__init__(observation_spec, action_spec, debug_summaries, name)
        for path, spec in nest.flatten_with_paths(action_spec):
            if not spec.is_continuous:
                raise ValueError(f"{name}: action {path!r} is discrete: it is for continuous actions only")
        if same_action_noise <= 0.0:
            raise ValueError(f"{name}: same_action_noise is {same_action_noise}: it must be positive")
        if not 0.0 <= same_action_prob < 1.0:
            raise ValueError(f"{name}: same_action_prob is {same_action_prob}: it must be in [0, 1)")
        self._noise = same_action_noise
        self._prob = same_action_prob

    def prior(self, inputs: TimeStep) -> Nest:
        """A mixture around the previous action, for each element of the action."""
        weight = torch.where(inputs.is_first(), 0.0, self._prob)

        def one(spec: BoundedTensorSpec, previous: Tensor) -> Distribution:
            low, high = (torch.tensor(bound, dtype=previous.dtype) for bound in (spec.minimum, spec.maximum))
            low, high = (bound.expand(spec.shape).to(previous.device) for bound in (low, high))
            middle = (0.5 * (low + high)).expand_as(previous)
            scale = (high - low).expand_as(previous)
            component = TruncatedNormal(
                torch.stack([middle, previous], -1),
                torch.stack([scale, scale * self._noise], -1),
                low.unsqueeze(-1),
                high.unsqueeze(-1),
            )
            sharp = nest.expand_dims_as(weight, previous).expand_as(previous)
            mixture = Categorical(probs=torch.stack([1.0 - sharp, sharp], -1))
            return _Independent(Mixture(mixture, component), spec.ndim)

        return nest.map_structure(one, self._action_spec, inputs.prev_action)


@configurable
class UniformPriorActor(PriorActor):
    """All actions are alike."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        debug_summaries: bool = False,
        name: str = "UniformPriorActor",
    ) -> None:
        """Makes the prior.

        Args:
            observation_spec: specs of the observation.
            action_spec: bounded specs of the action, discrete or continuous.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        super().__init__(observation_spec, action_spec, debug_summaries, name)

    def prior(self, inputs: TimeStep) -> Nest:
        """The uniform distribution over the range of each part of the action."""
        batch = inputs.step_type.shape
        device = inputs.step_type.device

        def one(spec: BoundedTensorSpec) -> Distribution:
            if spec.is_discrete:
                return _uniform_choice(spec, batch, device)
            ones = torch.ones(*batch, *spec.shape, dtype=spec.dtype, device=device)
            return Beta(ones, ones, Bounds.from_spec(spec, device), event_ndims=spec.ndim)

        return nest.map_structure(one, self._action_spec)


def _uniform_choice(spec: BoundedTensorSpec, batch: torch.Size, device: torch.device) -> Distribution:
    if spec.ndim != 0 or int(spec.minimum) != 0:
        raise ValueError(f"a uniform prior of a discrete action needs a scalar that starts at 0, got {spec}")
    return Categorical(logits=torch.zeros(*batch, spec.num_values, device=device))
