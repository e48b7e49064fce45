"""Distributions over a finite number of choices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from rein.distributions.base import Distribution, Shape
from rein.ops.codes import straight_through


class Categorical(Distribution):
    """One choice out of n.

    A logit of minus infinity (or a probability of 0) forbids a choice: it is never sampled and adds nothing to the
    entropy or its gradient.

    Args:
        logits: [batch, n] log-probabilities up to a constant; give this or `probs`.
        probs: [batch, n] probabilities up to a factor.
    """

    param_names = ("logits",)
    has_rsample = False
    is_discrete = True
    event_ndims = 0

    def __init__(self, logits: Tensor | None = None, probs: Tensor | None = None) -> None:
        self.logits = _logits(logits, probs)
        self._normalized: Tensor | None = None

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of what `log_prob` gives for one sample."""
        return self.logits.shape[:-1]

    @property
    def event_shape(self) -> torch.Size:
        """Shape of one event: a scalar."""
        return torch.Size()

    @property
    def num_choices(self) -> int:
        """How many choices there are."""
        return self.logits.shape[-1]

    @property
    def log_probs(self) -> Tensor:
        """[batch, n] normalised log-probabilities."""
        cached = self._normalized
        if cached is None:
            cached = torch.log_softmax(self.logits, -1)
            # What was computed without gradient must not be found later by someone who needs the gradient.
            if torch.is_grad_enabled() or not self.logits.requires_grad:
                self._normalized = cached
        return cached

    @property
    def probs(self) -> Tensor:
        """[batch, n] probabilities."""
        return torch.softmax(self.logits, -1)

    @property
    def mode(self) -> Tensor:
        """[batch] the most probable choice (int64)."""
        return self.logits.argmax(-1)

    @property
    def mean(self) -> Tensor:
        """[batch] the mean of the choices read as numbers."""
        return (self.probs * _arange_like(self.logits)).sum(-1)

    @property
    def stddev(self) -> Tensor:
        """[batch] the standard deviation of the choices read as numbers."""
        deviation = _arange_like(self.logits) - self.mean.unsqueeze(-1)
        return (self.probs * deviation.square()).sum(-1).sqrt()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns sampled choices, [sample_shape, batch] int64."""
        return sample_logits(self.logits, sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Returns the log-probability of the choices `value`, [sample_shape, batch]."""
        log_probs = self.log_probs
        index = value.long().unsqueeze(-1)
        if index.ndim != log_probs.ndim:
            log_probs = log_probs.expand(*value.shape, -1)
        return log_probs.gather(-1, index).squeeze(-1)

    def entropy(self) -> Tensor:
        """Returns the entropy in nats, [batch]."""
        return entropy_of(self.log_probs)


class MultiCategorical(Distribution):
    """Independent choices, the i-th out of `nvec[i]` (multi-discrete actions).

    Args:
        logits: [batch, sum(nvec)] the logits of all choices one after the other, or [batch, d, n] for d choices that
            are all out of n.
        nvec: how many values each choice has; may be omitted with [batch, d, n] logits.
    """

    param_names = ("logits",)
    has_rsample = False
    is_discrete = True
    event_ndims = 1

    def __init__(self, logits: Tensor, nvec: tuple[int, ...] | None = None) -> None:
        self.logits = logits
        self.nvec = None if nvec is None else tuple(nvec)
        self.table = Categorical(logits=logits if self.nvec is None else self._as_table(logits, self.nvec))

    @staticmethod
    def _as_table(logits: Tensor, nvec: tuple[int, ...]) -> Tensor:
        """Returns [batch, d, max(nvec)] logits, minus infinity where a choice has no such value."""
        if logits.shape[-1] != sum(nvec):
            raise ValueError(f"logits of shape {tuple(logits.shape)} do not end in sum(nvec)={sum(nvec)}")
        widest = max(nvec)
        if min(nvec) == widest:
            return logits.reshape(*logits.shape[:-1], len(nvec), widest)
        parts = [
            torch.nn.functional.pad(part, (0, widest - part.shape[-1]), value=-torch.inf)
            for part in torch.split(logits, list(nvec), -1)
        ]
        return torch.stack(parts, -2)

    @property
    def settings(self) -> dict[str, Any]:
        """Constructor arguments that are not batched parameters."""
        return {"nvec": self.nvec}

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of what `log_prob` gives for one sample."""
        return self.table.logits.shape[:-2]

    @property
    def event_shape(self) -> torch.Size:
        """Shape of one event: the number of choices."""
        return self.table.logits.shape[-2:-1]

    @property
    def mode(self) -> Tensor:
        """[batch, d] the most probable choices (int64)."""
        return self.table.mode

    @property
    def mean(self) -> Tensor:
        """[batch, d] the means of the choices read as numbers."""
        return self.table.mean

    @property
    def stddev(self) -> Tensor:
        """[batch, d] the standard deviations of the choices read as numbers."""
        return self.table.stddev

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns sampled choices, [sample_shape, batch, d] int64."""
        return self.table.sample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Returns the log-probability of all choices together, [sample_shape, batch]."""
        return self.table.log_prob(value).sum(-1)

    def entropy(self) -> Tensor:
        """Returns the entropy in nats, [batch]."""
        return self.table.entropy().sum(-1)


class OneHotCategorical(Distribution):
    """One choice out of n as a one-hot vector; no gradient passes through samples.

    Args:
        logits: [batch, n] log-probabilities up to a constant; give this or `probs`.
        probs: [batch, n] probabilities up to a factor.
    """

    param_names = ("logits",)
    is_discrete = True
    has_rsample = False
    event_ndims = 1

    def __init__(self, logits: Tensor | None = None, probs: Tensor | None = None) -> None:
        self.logits = _logits(logits, probs)
        self.choice = Categorical(logits=self.logits)

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of what `log_prob` gives for one sample."""
        return self.logits.shape[:-1]

    @property
    def event_shape(self) -> torch.Size:
        """Shape of one event: the number of choices."""
        return self.logits.shape[-1:]

    @property
    def probs(self) -> Tensor:
        """[batch, n] probabilities."""
        return self.choice.probs

    @property
    def mode(self) -> Tensor:
        """[batch, n] one-hot of the most probable choice."""
        return self._one_hot(self.choice.mode)

    @property
    def mean(self) -> Tensor:
        """[batch, n] the probabilities."""
        return self.probs

    @property
    def stddev(self) -> Tensor:
        """[batch, n] the standard deviation of each entry."""
        probs = self.probs
        return (probs * (1.0 - probs)).sqrt()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns one-hot samples, [sample_shape, batch, n]."""
        return self._one_hot(self.choice.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Returns the log-probability of one-hot `value`, [sample_shape, batch]."""
        log_probs = self.choice.log_probs
        return (value * log_probs.clamp_min(torch.finfo(log_probs.dtype).min)).sum(-1)

    def entropy(self) -> Tensor:
        """Returns the entropy in nats, [batch]."""
        return self.choice.entropy()

    def _one_hot(self, index: Tensor) -> Tensor:
        return one_hot(index, self.logits.shape[-1]).to(self.logits.dtype)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One choice out of n as a one-hot vector, whose `rsample` passes gradient to the probabilities.

    The gradient of the straight-through estimator (Bengio et al. 2013) is biased.

    Args:
        logits: [batch, n] log-probabilities up to a constant; give this or `probs`.
        probs: [batch, n] probabilities up to a factor.
    """

    has_rsample = True

    @property
    def rmode(self) -> Tensor:
        """[batch, n] the mode, with the gradient of the probabilities."""
        return straight_through(self.mode, self.probs)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns one-hot samples with the gradient of the probabilities, [sample_shape, batch, n]."""
        return straight_through(self.sample(sample_shape), self.probs)


class OneHotCategoricalGumbelSoftmax(OneHotCategoricalStraightThrough):
    """One choice out of n as a one-hot vector, whose `rsample` is relaxed by Gumbel-softmax (Jang et al. 2017).

    Args:
        logits: [batch, n] log-probabilities up to a constant; give this or `probs`.
        probs: [batch, n] probabilities up to a factor.
        temperature: of the relaxation; towards 0 the gradient has less bias and more variance.
        hard: whether `rsample` gives one-hot values with the relaxed gradient; otherwise the relaxed values, for which
            `log_prob` is a cross-entropy, not a density.
    """

    def __init__(
        self,
        logits: Tensor | None = None,
        probs: Tensor | None = None,
        *,
        temperature: float = 1.0,
        hard: bool = True,
    ) -> None:
        super().__init__(logits, probs)
        self.temperature = temperature
        self.hard = hard

    @property
    def settings(self) -> dict[str, Any]:
        """Constructor arguments that are not batched parameters."""
        return {"temperature": self.temperature, "hard": self.hard}

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns (relaxed) one-hot samples, [sample_shape, batch, n]."""
        perturbed = self.logits + standard_gumbel(self.logits, sample_shape)
        relaxed = torch.softmax(perturbed / self.temperature, -1)
        if not self.hard:
            return relaxed
        return straight_through(self._one_hot(perturbed.argmax(-1)), relaxed)


def sample_logits(logits: Tensor, sample_shape: Shape = ()) -> Tensor:
    """Returns choices drawn with the probabilities softmax(logits), [sample_shape, batch] int64.

    The Gumbel-max trick needs no normalisation and, for the few choices of an action, is faster than drawing from a
    normalised table.
    """
    return (logits + standard_gumbel(logits, sample_shape)).argmax(-1)


def entropy_of(log_probs: Tensor) -> Tensor:
    """Returns [batch] the entropy in nats of normalised [batch, n] `log_probs`, in which minus infinity is allowed."""
    finite = log_probs.clamp_min(torch.finfo(log_probs.dtype).min)
    return -(finite.exp() * finite).sum(-1)


def standard_gumbel(like: Tensor, sample_shape: Shape = ()) -> Tensor:
    """Returns standard Gumbel noise, [sample_shape, *like.shape], always finite.

    From uniform numbers, because torch's own exponential ones take twice as long on a CPU.
    """
    if sample_shape:
        noise = torch.rand(sample_shape + like.shape, dtype=like.dtype, device=like.device)
    else:
        noise = torch.rand_like(like)
    return noise.clamp_min_(torch.finfo(like.dtype).tiny).log_().neg_().log_().neg_()


def _logits(logits: Tensor | None, probs: Tensor | None) -> Tensor:
    if logits is None:
        if probs is None:
            raise ValueError("a categorical distribution needs logits or probs")
        return probs.log()
    if probs is not None:
        raise ValueError("a categorical distribution takes logits or probs, not both")
    return logits


def _arange_like(logits: Tensor) -> Tensor:
    return torch.arange(logits.shape[-1], dtype=logits.dtype, device=logits.device)
