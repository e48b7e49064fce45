"""Goals that an agent sets itself; each is kept for an episode."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.framework.rl_algorithm import RLAlgorithm
from rein.nest import Nest
from rein.specs import BoundedTensorSpec


class GoalState(NamedTuple):
    """What is remembered from step to step."""

    goal: Nest = ()
    """[B, K] the goal of the episode, one-hot."""


class GoalInfo(NamedTuple):
    """What training needs of a step."""

    goal: Nest = ()
    """[B, K] the goal that was pursued."""
    loss: Nest = ()


@configurable
class RandomCategoricalGoalGenerator(RLAlgorithm):
    """Draws one of K goals, all alike, at the first step of every episode.

    Its output is the pair (goal, reward) that an `Agent` expects: a one-hot vector [B, K], and `()` as there is no reward.
    """

    def __init__(self, observation_spec: Nest, num_of_goals: int, name: str = "RandomCategoricalGoalGenerator") -> None:
        """Makes the generator.

        Args:
            observation_spec: specs of the observation, which it does not use.
            num_of_goals: number K of goals.
            name: name in summaries.
        """
        if num_of_goals < 1:
            raise ValueError(f"{name}: num_of_goals is {num_of_goals}: there must be at least one")
        goal_spec = BoundedTensorSpec((num_of_goals,), torch.float32, 0, 1)
        super().__init__(
            observation_spec=observation_spec,
            action_spec=goal_spec,
            train_state_spec=(),
            rollout_state_spec=GoalState(goal=goal_spec),
            predict_state_spec=GoalState(goal=goal_spec),
            name=name,
        )
        self._num_of_goals = num_of_goals

    def predict_step(self, inputs: TimeStep, state: GoalState) -> AlgStep:
        """The goal of the episode, a new one at FIRST steps."""
        goal = self._goal(inputs, state)
        return AlgStep(output=(goal, ()), state=GoalState(goal=goal))

    def rollout_step(self, inputs: TimeStep, state: GoalState) -> AlgStep:
        """The goal of the episode, a new one at FIRST steps."""
        goal = self._goal(inputs, state)
        return AlgStep(output=(goal, ()), state=GoalState(goal=goal), info=GoalInfo(goal=goal))

    def train_step(self, inputs: TimeStep, state: Nest, rollout_info: GoalInfo) -> AlgStep:
        """The goal that the rollout pursued, which is the one that the stored actions belong to."""
        return AlgStep(output=(rollout_info.goal, ()))

    def calc_loss(self, info: Any) -> LossInfo:
        """No loss: nothing is learnt."""
        return LossInfo()

    def _goal(self, inputs: TimeStep, state: GoalState) -> Tensor:
        is_first = inputs.is_first()
        if not bool(is_first.any()):
            return state.goal
        fresh = torch.randint(self._num_of_goals, is_first.shape, device=is_first.device)
        return torch.where(is_first.unsqueeze(-1), F.one_hot(fresh, self._num_of_goals).float(), state.goal)
