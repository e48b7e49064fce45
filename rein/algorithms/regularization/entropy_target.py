"""Adjusts the weight alpha of the policy's entropy so that the entropy stays near a target from above.

All of these add -alpha H(pi(. | s)) to the loss. They differ in how alpha moves:

* `EntropyTargetAlgorithm` by rules, in stages. With H the entropy averaged over a few updates,
    - init: if max_entropy is not given, the first updates estimate it from H. While H is above it, log alpha falls by
      `very_slow_update_rate` per update.
    - free: alpha stays until H falls below the target.
    - adjust: log alpha += ((below + above / 2) decreasing - (above + below / 2) increasing) rate, where each word is 1 if
      it holds of H. The rate begins at `fast_update_rate`, shrinks by 0.9 down to `slow_update_rate` whenever H crosses the
      target, and is fast again when H falls to half of a positive target or to twice a negative one.
* `NestedEntropyTargetAlgorithm` keeps one of these for each action of a nest.
* `SGDEntropyTargetAlgorithm` descends log alpha (H - target) as soft actor-critic does.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rein import nest
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, StepType
from rein.distributions import calc_default_target_entropy, entropy_with_fallback
from rein.framework.algorithm import Algorithm
from rein.framework.containers import sum_losses
from rein.nest import Nest
from rein.ops import masked_mean
from rein.runtime import summary
from rein.statistics import ScalarWindowAverager
from rein.statistics.host_scalar import HostScalar

# Stages. The numbers are in checkpoints.
_INIT, _FREE, _ADJUST = 0, 1, 2
_UNKNOWN = -1

_CROSSING_DECAY = 0.9
_INITIAL_ENTROPY_SHARE = 0.8
_LEAST_LOG_ALPHA = -100.0


class EntropyTargetLossInfo(NamedTuple):
    """For summaries, [B]."""

    neg_entropy: Nest = ()


class EntropyTargetInfo(NamedTuple):
    """What the loss needs of a step."""

    step_type: Nest = ()
    loss: Nest = ()
    """`LossInfo`: the loss is the negative entropy, to be weighted by alpha."""


class _EntropyTarget(Algorithm):
    """What all of them share: the entropy of action distributions as a loss."""

    def predict_step(self, distribution_and_step_type: Nest, state: Nest = None) -> AlgStep:
        """Nothing: there is no loss in evaluation."""
        return AlgStep()

    def rollout_step(self, distribution_and_step_type: Nest, state: Nest = None) -> AlgStep:
        """What `train_step` gives, if the rollout itself is trained on; otherwise nothing.

        Args:
            distribution_and_step_type: action distributions of the policy, and step types [B].
            state: not used.
        """
        return self.train_step(distribution_and_step_type) if self.on_policy else AlgStep()

    def train_step(self, distribution_and_step_type: Nest, state: Nest = None, rollout_info: Nest = None) -> AlgStep:
        """The entropy of every step.

        Args:
            distribution_and_step_type: action distributions of the policy, and step types, [B] or [T, B].
            state: not used.
            rollout_info: not used.
        """
        distribution, step_type = distribution_and_step_type
        return AlgStep(info=entropy_info(distribution, step_type))


def entropy_info(distribution: Nest, step_type: Tensor) -> EntropyTargetInfo:
    """Negative entropies of a nest of distributions, added up, to learn from and to look at."""
    entropy, for_gradient = entropy_with_fallback(distribution)
    loss = LossInfo(loss=-for_gradient, extra=EntropyTargetLossInfo(neg_entropy=-entropy.detach()))
    return EntropyTargetInfo(step_type=step_type, loss=loss)


def _mean_entropy(info: EntropyTargetInfo, valid_mask: Tensor | None = None) -> Tensor | None:
    """The mean entropy of the steps that an action was taken at; None if there are none."""
    mask = (info.step_type != StepType.LAST).float()
    if valid_mask is not None:
        mask = mask * valid_mask
    if not bool((mask > 0).any()):
        return None
    return -masked_mean(info.loss.extra.neg_entropy, mask)


@configurable
class EntropyTargetAlgorithm(_EntropyTarget):
    """Adjusts the weight of the entropy by rules, in stages."""

    def __init__(
        self,
        action_spec: Nest,
        initial_alpha: float = 0.1,
        skip_free_stage: bool = False,
        max_entropy: float | None = None,
        target_entropy: float | None = None,
        very_slow_update_rate: float = 0.001,
        slow_update_rate: float = 0.01,
        fast_update_rate: float = math.log(2),
        min_alpha: float = 0.0001,
        average_window: int = 2,
        debug_summaries: bool = False,
        name: str = "EntropyTargetAlgorithm",
    ) -> None:
        """Makes the algorithm.

        Args:
            action_spec: bounded specs of the action.
            initial_alpha: alpha at the start; large enough for exploration.
            skip_free_stage: begin with the adjust stage.
            max_entropy: entropy in nats that the init stage ends at; None is 0.8 H (H / 0.8 if negative) of the entropy H
                of the first `average_window` updates.
            target_entropy: entropy in nats to stay above, at most `max_entropy`; None is
                `calc_default_target_entropy(action_spec)`.
            very_slow_update_rate: of log alpha per update, in the init stage.
            slow_update_rate: least rate in the adjust stage.
            fast_update_rate: greatest rate in the adjust stage.
            min_alpha: least alpha; exp(-100) if not positive.
            average_window: updates that the entropy is averaged over.
            debug_summaries: write alpha, the entropy, the stage and the rate.
            name: name in summaries.
        """
        super().__init__(debug_summaries=debug_summaries, name=name)
        if initial_alpha <= 0.0:
            raise ValueError(f"{name}: initial_alpha is {initial_alpha}: it must be positive")
        if not 0.0 < slow_update_rate <= fast_update_rate:
            raise ValueError(
                f"{name}: the rates are {slow_update_rate} (slow) and {fast_update_rate} (fast): put in order"
            )
        target = calc_default_target_entropy(action_spec) if target_entropy is None else float(target_entropy)
        if max_entropy is not None and target > max_entropy:
            raise ValueError(f"{name}: target_entropy {target} exceeds max_entropy {max_entropy}")
        self._target_entropy = target
        self._fast_stage_threshold = 0.5 * target if target > 0.0 else 2.0 * target
        self._very_slow_update_rate = very_slow_update_rate
        self._slow_update_rate = slow_update_rate
        self._fast_update_rate = fast_update_rate
        self._min_log_alpha = math.log(min_alpha) if min_alpha > 0.0 else _LEAST_LOG_ALPHA
        self._average_entropy = ScalarWindowAverager(average_window)
        self._log_alpha = HostScalar(math.log(initial_alpha))
        self._stage = HostScalar(_ADJUST if skip_free_stage else _INIT)
        self._was_above = HostScalar(_UNKNOWN)
        self._update_rate = HostScalar(float(fast_update_rate))
        self._max_entropy = HostScalar(0.0 if max_entropy is None else float(max_entropy))
        self._updates_until_max_entropy = HostScalar(average_window if max_entropy is None else 0)
        self._num_updates = HostScalar(0)

    @property
    def target_entropy(self) -> float:
        """Entropy in nats that the policy should stay above."""
        return self._target_entropy

    @property
    def alpha(self) -> float:
        """The weight of the entropy."""
        return math.exp(self._log_alpha.get())

    def calc_loss(self, info: EntropyTargetInfo, valid_mask: Tensor | None = None) -> LossInfo:
        """Adjusts alpha, and weights the negative entropies [T, B] by it.

        Args:
            info: [T, B].
            valid_mask: [T, B], 0 for further steps that do not count.
        """
        entropy = _mean_entropy(info, valid_mask)
        alpha = self.alpha if entropy is None else self.adjust_alpha(entropy)
        return info.loss._replace(loss=alpha * info.loss.loss)

    def adjust_alpha(self, entropy: Tensor) -> float:
        """Takes in the entropy of one more update; returns the new alpha.

        Args:
            entropy: a scalar.
        """
        previous = float(self._average_entropy.get()) if self._num_updates.get() else None
        self._num_updates.set(self._num_updates.get() + 1)
        average = float(self._average_entropy.average(entropy.detach()))
        stage = self._stage.get()
        if stage == _INIT:
            self._init(average)
        elif stage == _FREE:
            if average < self._target_entropy:
                self._stage.set(_ADJUST)
                self._was_above.set(0)
        else:
            self._adjust(average, previous, float(entropy))
        if self._debug_summaries and summary.should_record_summaries():
            with summary.scope(self._name):
                summary.scalar("alpha", self.alpha)
                summary.scalar("average_entropy", average)
                summary.scalar("stage", self._stage.get())
                summary.scalar("update_rate", self._update_rate.get())
        return self.alpha

    def _init(self, average: float) -> None:
        waiting = self._updates_until_max_entropy.get()
        if waiting > 0:
            share = _INITIAL_ENTROPY_SHARE
            self._max_entropy.set(min(share * average, average / share))
            self._updates_until_max_entropy.set(waiting - 1)
        elif average < self._max_entropy.get():
            self._stage.set(_FREE)
        else:
            self._change(-self._very_slow_update_rate)

    def _adjust(self, average: float, previous: float | None, entropy: float) -> None:
        is_above = average > self._target_entropy
        rate = self._update_rate.get()
        if self._was_above.get() == int(not is_above):
            rate = max(_CROSSING_DECAY * rate, self._slow_update_rate)
        if entropy < self._fast_stage_threshold:
            rate = self._fast_update_rate
        self._was_above.set(int(is_above))
        self._update_rate.set(rate)
        if previous is None:
            return
        # An entropy that stands still should move towards the target.
        is_rising = average > previous or (average == previous and is_above)
        if is_rising:
            self._change(-rate if is_above else -0.5 * rate)
        else:
            self._change(0.5 * rate if is_above else rate)

    def _change(self, difference: float) -> None:
        self._log_alpha.set(max(self._log_alpha.get() + difference, self._min_log_alpha))


@configurable
class NestedEntropyTargetAlgorithm(_EntropyTarget):
    """Adjusts the weight of the entropy of each action of a nest by itself; see `EntropyTargetAlgorithm`."""

    def __init__(
        self,
        action_spec: Nest,
        initial_alpha: float = 0.1,
        skip_free_stage: bool = False,
        max_entropy: Nest = None,
        target_entropy: Nest = None,
        very_slow_update_rate: float = 0.001,
        slow_update_rate: float = 0.01,
        fast_update_rate: float = math.log(2),
        min_alpha: float = 0.0001,
        average_window: int = 2,
        debug_summaries: bool = False,
        name: str = "EntropyTargetAlgorithm",
    ) -> None:
        """Makes the algorithm.

        Args:
            action_spec: nest of bounded specs of the action.
            initial_alpha: alpha of each action at the start.
            skip_free_stage: begin with the adjust stage.
            max_entropy: entropy in nats that the init stage of each action ends at: one for all, or a nest like
                `action_spec`; None is estimated.
            target_entropy: entropy in nats for each action to stay above: one for all, or a nest; None is by default.
            very_slow_update_rate: see `EntropyTargetAlgorithm`, as for all that follow.
            slow_update_rate: least rate in the adjust stage.
            fast_update_rate: greatest rate in the adjust stage.
            min_alpha: least alpha.
            average_window: updates that entropies are averaged over.
            debug_summaries: write alphas, entropies, stages and rates.
            name: name in summaries.
        """
        super().__init__(debug_summaries=debug_summaries, name=name)
        paths = [path for path, _ in nest.flatten_with_paths(action_spec)]
        specs = nest.flatten(action_spec)
        self._algs = nn.ModuleList(
            EntropyTargetAlgorithm(
                spec,
                initial_alpha,
                skip_free_stage,
                highest,
                target,
                very_slow_update_rate,
                slow_update_rate,
                fast_update_rate,
                min_alpha,
                average_window,
                debug_summaries,
                name=f"{name}/{path}".rstrip("/"),
            )
            for path, spec, highest, target in zip(
                paths, specs, _for_each(max_entropy, action_spec), _for_each(target_entropy, action_spec), strict=True
            )
        )

    def train_step(self, distribution_and_step_type: Nest, state: Nest = None, rollout_info: Nest = None) -> AlgStep:
        """The entropy of every step, of each action."""
        distribution, step_type = distribution_and_step_type
        infos = [entropy_info(part, step_type) for part in nest.flatten(distribution)]
        return AlgStep(info=infos)

    def calc_loss(self, info: list[EntropyTargetInfo], valid_mask: Tensor | None = None) -> LossInfo:
        """Adjusts all alphas; the sum of the weighted negative entropies, [T, B]."""
        losses = {}
        for alg, part in zip(self._algs, info, strict=True):
            assert isinstance(alg, EntropyTargetAlgorithm)
            losses[alg.name] = alg.calc_loss(part, valid_mask)
        return sum_losses(losses)


def _for_each(value: Nest, action_spec: Nest) -> list[Any]:
    """One value for each action: `value` itself, or its parts."""
    if value is None or not nest.is_nested(value):
        return [value] * len(nest.flatten(action_spec))
    nest.assert_same_structure(value, action_spec)
    return nest.flatten(value)


@configurable
class SGDEntropyTargetAlgorithm(_EntropyTarget):
    """Adjusts the weight of the entropy by gradient descent, as soft actor-critic does."""

    def __init__(
        self,
        action_spec: Nest,
        initial_alpha: float = 0.1,
        target_entropy: Callable[[], float] | float | None = None,
        window_size: int = 1,
        optimizer: Any | None = None,
        debug_summaries: bool = False,
        name: str = "SGDEntropyTargetAlgorithm",
    ) -> None:
        """Makes the algorithm.

        Args:
            action_spec: nest of bounded specs of the action.
            initial_alpha: alpha at the start.
            target_entropy: total entropy in nats to aim at, or a function (such as a scheduler) that is asked at every
                update; None is `calc_default_target_entropy(action_spec)`.
            window_size: updates that the entropy is averaged over.
            optimizer: of log alpha; None leaves it to the parent.
            debug_summaries: write alpha and the entropy.
            name: name in summaries.
        """
        super().__init__(optimizer=optimizer, debug_summaries=debug_summaries, name=name)
        if initial_alpha <= 0.0:
            raise ValueError(f"{name}: initial_alpha is {initial_alpha}: it must be positive")
        self._log_alpha = nn.Parameter(torch.tensor(math.log(initial_alpha)))
        self._target_entropy = calc_default_target_entropy(action_spec) if target_entropy is None else target_entropy
        self._average_entropy = ScalarWindowAverager(window_size)

    @property
    def alpha(self) -> float:
        """The weight of the entropy."""
        return float(self._log_alpha.detach().exp())

    def calc_loss(self, info: EntropyTargetInfo) -> LossInfo:
        """The weighted negative entropies [T, B], and as `scalar_loss` that of log alpha."""
        loss = info.loss._replace(loss=self._log_alpha.detach().exp() * info.loss.loss)
        entropy = _mean_entropy(info)
        if entropy is None:
            return loss
        target = self._target_entropy() if callable(self._target_entropy) else self._target_entropy
        average = self._average_entropy.average(entropy)
        if self._debug_summaries and summary.should_record_summaries():
            with summary.scope(self._name):
                summary.scalar("alpha", self.alpha)
                summary.scalar("average_entropy", average)
        return loss._replace(scalar_loss=self._log_alpha * (average - target))
