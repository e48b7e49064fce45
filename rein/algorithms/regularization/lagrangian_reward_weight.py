"""Weights of several rewards that are tuned until each reward reaches a threshold on average.

Maximising r_0 under the constraints E[r_i] >= c_i has the Lagrangian E[r_0] + sum_i lambda_i (E[r_i] - c_i). The policy
maximises it through the weights lambda of its rewards, and the weights descend it,

    loss = sum_i lambda_i (mean r_i - c_i),

so that the weight of a reward falls where the threshold is met, and rises where it is not. lambda is softplus or exp of
a parameter, which keeps it positive. Rewards are those of the environment, before data transformers.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.framework.algorithm import Algorithm
from rein.nest import Nest
from rein.runtime import summary
from rein.specs import TensorSpec
from rein.statistics import Averager, EMAverager

_INVERSES: dict[Any, Callable[[Tensor], Tensor]] = {
    F.softplus: lambda weight: weight + torch.log(-torch.expm1(-weight)),
    torch.exp: torch.log,
}


class LagInfo(NamedTuple):
    """What the weights are tuned by."""

    rollout_reward: Nest = ()
    """[B, D] rewards of the environment, those of FIRST steps included, which are 0 in most environments."""


@configurable
class LagrangianRewardWeightAlgorithm(Algorithm):
    """Tunes the weights of a vector reward by the rewards of the rollout, once per iteration."""

    def __init__(
        self,
        reward_spec: TensorSpec,
        reward_thresholds: Sequence[float | None],
        optimizer: Any,
        init_weights: float | Sequence[float] = 1.0,
        max_weight: float | None = None,
        reward_weight_normalization: bool = True,
        lambda_transform: Callable[[Tensor], Tensor] = F.softplus,
        debug_summaries: bool = False,
        name: str = "LagrangianRewardWeightAlgorithm",
    ) -> None:
        """Makes the algorithm.

        Args:
            reward_spec: a vector of D rewards.
            reward_thresholds: D numbers, the least average reward per step that is wanted; None for a reward whose
                weight is not tuned.
            optimizer: of the weights.
            init_weights: weight(s) at the start, positive.
            max_weight: upper limit of the weights, before they are normalized.
            reward_weight_normalization: divide the weights by their sum.
            lambda_transform: `torch.nn.functional.softplus` or `torch.exp`.
            debug_summaries: write weights and rewards.
            name: name in summaries.
        """
        super().__init__(optimizer=optimizer, debug_summaries=debug_summaries, name=name)
        size = reward_spec.numel
        if reward_spec.ndim != 1 or size < 2:
            raise ValueError(f"{name}: reward_spec is {reward_spec}: weights need a vector of at least two rewards")
        if len(reward_thresholds) != size:
            raise ValueError(f"{name}: {len(reward_thresholds)} reward_thresholds for {size} rewards")
        if lambda_transform not in _INVERSES:
            raise ValueError(f"{name}: lambda_transform is {lambda_transform}: use softplus or exp of torch")
        weights = [float(init_weights)] * size if isinstance(init_weights, int | float) else list(init_weights)
        if len(weights) != size or min(weights) <= 0.0:
            raise ValueError(f"{name}: init_weights are {init_weights}: give {size} positive numbers")
        if max_weight is not None and max_weight < max(weights):
            raise ValueError(f"{name}: max_weight {max_weight} is less than the initial weight {max(weights)}")
        self._transform = lambda_transform
        self._lambdas = nn.Parameter(_INVERSES[lambda_transform](torch.tensor(weights)))
        self._max_weight = max_weight
        self._normalizes = reward_weight_normalization
        self._is_tuned: Tensor
        self._thresholds: Tensor
        self.register_buffer("_is_tuned", torch.tensor([float(c is not None) for c in reward_thresholds]), False)
        self.register_buffer("_thresholds", torch.tensor([c or 0.0 for c in reward_thresholds]), False)
        # Parents leave these parameters alone: they are trained once per iteration, not with every update.
        self._bind_optimizers()

    @property
    def reward_weights(self) -> Tensor:
        """The weights [D], without gradient."""
        with torch.no_grad():
            weights = self._transform(self._lambdas)
            if self._max_weight is not None:
                weights = weights.clamp(max=self._max_weight)
            return weights / weights.sum() if self._normalizes else weights

    def predict_step(self, inputs: TimeStep, state: Nest = None) -> AlgStep:
        """Nothing."""
        return AlgStep()

    def rollout_step(self, inputs: TimeStep, state: Nest = None) -> AlgStep:
        """Notes the reward of the environment."""
        return AlgStep(info=lag_info(inputs))

    def after_train_iter(self, root_inputs: Nest | None, rollout_info: LagInfo | None) -> None:
        """Tunes the weights by the rewards of the iteration.

        Args:
            root_inputs: not used.
            rollout_info: [T, B, ...]; None or `()` changes nothing.
        """
        if isinstance(rollout_info, LagInfo):
            reward = rollout_info.rollout_reward
            self._tune(reward.detach().reshape(-1, reward.shape[-1]).mean(0))

    def _tune(self, mean_reward: Tensor) -> None:
        """One gradient step, [D]."""
        with torch.enable_grad():
            loss = (self._transform(self._lambdas) * (mean_reward - self._thresholds) * self._is_tuned).sum()
        self.update_with_gradient(LossInfo(scalar_loss=loss))
        if self._max_weight is not None:
            with torch.no_grad():
                highest = _INVERSES[self._transform](torch.tensor(float(self._max_weight)))
                self._lambdas.clamp_(max=float(highest))
        if self._debug_summaries and summary.should_record_summaries():
            with summary.scope(self._name):
                for i, (weight, reward) in enumerate(zip(self.reward_weights, mean_reward, strict=True)):
                    summary.scalar(f"weight/{i}", weight)
                    summary.scalar(f"mean_reward/{i}", reward)


def lag_info(inputs: TimeStep) -> LagInfo:
    """Rewards [B, D] of the environment, from before the transforms if they were kept."""
    reward = inputs.untransformed.reward if isinstance(inputs.untransformed, TimeStep) else inputs.reward
    return LagInfo(rollout_reward=reward)


_SLOW_AVERAGER = partial(EMAverager, update_rate=1e-4)


@configurable
class LagrangianPredRewardWeightAlgorithm(LagrangianRewardWeightAlgorithm):
    """Tunes the weights of a vector reward by the rewards of evaluation.

    Exploration makes hard constraints look broken that the policy keeps in evaluation. As evaluations are not part of
    training, their rewards are kept in an average, which each iteration tunes by. `TrainerConfig.evaluate` must be True.
    """

    def __init__(
        self,
        reward_spec: TensorSpec,
        reward_thresholds: Sequence[float | None],
        optimizer: Any,
        init_weights: float | Sequence[float] = 1.0,
        max_weight: float | None = None,
        reward_weight_normalization: bool = True,
        pred_rewards_averager_ctor: Callable[..., Averager] | None = _SLOW_AVERAGER,
        debug_summaries: bool = False,
        name: str = "LagrangianPredRewardWeightAlgorithm",
    ) -> None:
        """Makes the algorithm.

        Args:
            reward_spec: a vector of D rewards.
            reward_thresholds: D numbers, the least average reward per step that is wanted; None for a reward whose
                weight is not tuned.
            optimizer: of the weights.
            init_weights: weight(s) at the start, positive.
            max_weight: upper limit of the weights, before they are normalized.
            reward_weight_normalization: divide the weights by their sum.
            pred_rewards_averager_ctor: called as `ctor(tensor_spec)`; averages the rewards of evaluation. None is an
                `EMAverager` with update rate 1e-4.
            debug_summaries: write weights and rewards.
            name: name in summaries.
        """
        super().__init__(
            reward_spec,
            reward_thresholds,
            optimizer,
            init_weights,
            max_weight,
            reward_weight_normalization,
            debug_summaries=debug_summaries,
            name=name,
        )
        ctor = _SLOW_AVERAGER if pred_rewards_averager_ctor is None else pred_rewards_averager_ctor
        self._averager = ctor(reward_spec)
        self.register_buffer("_has_rewards", torch.zeros((), dtype=torch.bool))
        self._has_rewards: Tensor

    def predict_step(self, inputs: TimeStep, state: Nest = None) -> AlgStep:
        """Takes the rewards into the average."""
        self._averager.update(lag_info(inputs).rollout_reward)
        self._has_rewards.fill_(True)
        return AlgStep()

    def rollout_step(self, inputs: TimeStep, state: Nest = None) -> AlgStep:
        """Nothing: the rollout does not count."""
        return AlgStep()

    def after_train_iter(self, root_inputs: Nest | None, rollout_info: Nest | None) -> None:
        """Tunes the weights by the average, once there was an evaluation."""
        if bool(self._has_rewards):
            self._tune(self._averager.get())
