"""Control by planning in the latent space of a representation learner.

The learner encodes an observation into a latent z_t and predicts, for a plan, the rewards at the steps 1 .. H (see
`rein.algorithms.representation.predictive_representation_learner`); a plan costs minus their sum. What it predicts at step
0 is the reward that was already received, and is left out.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rein.algorithms.model_based.dynamics_learning import DynamicsLearningAlgorithm
from rein.algorithms.model_based.mbrl import MbrlAlgorithm, MbrlInfo, MbrlState, RewardModule
from rein.algorithms.model_based.planning import PlanAlgorithm
from rein.algorithms.model_based.reward_learning import RewardEstimationAlgorithm
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.envs import Environment
from rein.framework import TrainerConfig
from rein.nest import Nest
from rein.specs import BoundedTensorSpec, TensorSpec


@configurable
class LatentMbrlAlgorithm(MbrlAlgorithm):
    """Plans in the latent space of a `PredictiveRepresentationLearner`, which learns dynamics and rewards by itself.

    For an `Agent` whose representation learner is a `PredictiveRepresentationLearner` with a decoder of the reward: what
    is observed here is its latent. There is nothing to learn for this algorithm, so that it has no loss.
    """

    def __init__(
        self,
        observation_spec: TensorSpec,
        action_spec: BoundedTensorSpec,
        planner_module_ctor: Callable[..., PlanAlgorithm],
        reward_spec: TensorSpec = TensorSpec(()),
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        planner_optimizer: Any | None = None,
        debug_summaries: bool = False,
        name: str = "LatentMbrlAlgorithm",
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: spec of the latent.
            action_spec: of the action: one vector of real numbers with finite bounds.
            planner_module_ctor: called as `ctor(feature_spec=, action_spec=)`; makes the planner.
            reward_spec: a scalar, or a vector, of which planning uses the first component.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            planner_optimizer: of the planner, if it has parameters; None leaves it to the parent.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        super().__init__(
            observation_spec,
            action_spec,
            reward_module=None,
            planner_module_ctor=planner_module_ctor,
            reward_spec=reward_spec,
            env=env,
            config=config,
            planner_optimizer=planner_optimizer,
            debug_summaries=debug_summaries,
            name=name,
        )
        # In a list, the learner does not become a part of this algorithm, to be trained and saved twice.
        self._latent_module: list[Any] = []

    def set_latent_predictive_representation_module(self, latent_predictive_representation_module: Any) -> None:
        """Takes over the learner to plan with; its parameters stay its own.

        Args:
            latent_predictive_representation_module: a `PredictiveRepresentationLearner`, or another algorithm with
                `num_unroll_steps` and `predict_multi_step(init_latent, actions, target_field)`, which gives what it
                predicts at the beginning and after each action, [B, K + 1, ...].

        Raises:
            ValueError: it cannot predict the rewards of plans.
        """
        module, horizon = latent_predictive_representation_module, self._planner_module.planning_horizon
        if not callable(getattr(module, "predict_multi_step", None)):
            raise ValueError(
                f"{self.name} plans with the predictions of a PredictiveRepresentationLearner, but the representation "
                f"learner is {getattr(module, 'name', module)}: compose it with one that has a decoder of the reward"
            )
        self._latent_module = [module]
        size = tuple(self._action_spec.shape)
        with torch.no_grad():
            cost = self._cost_of_plans(self._feature_spec.zeros((2,)), torch.zeros(2, 3, horizon, *size))
        if cost.shape != (2, 3):
            raise ValueError(f"{self.name}: {module.name} predicts no rewards of single steps")
        if horizon > module.num_unroll_steps:
            warnings.warn(
                f"{self.name} plans {horizon} steps ahead, but {module.name} learns to predict "
                f"{module.num_unroll_steps}: raise num_unroll_steps, or lower planning_horizon",
                stacklevel=2,
            )

    # Planning.

    @torch.no_grad()
    def _cost_of_plans(self, observation: Tensor, plans: Tensor) -> Tensor:
        """Minus the sum of the rewards predicted at steps 1 .. H, [B, M], of plans [B, M, H, A] from latents [B, d]."""
        batch, population = plans.shape[:2]
        latent = observation.repeat_interleave(population, 0)
        reward = self._learner.predict_multi_step(latent, plans.flatten(0, 1), target_field="reward")
        if reward.ndim > 2:
            reward = reward[..., 0]
        return -reward[:, 1:].sum(1).reshape(batch, population)

    @torch.no_grad()
    def imagine(self, observation: Tensor, plan: Tensor) -> Tensor:
        """Which observations of the environment are decoded from the latents that a plan leads to.

        Args:
            observation: [B, d] latent where it begins.
            plan: [B, H, A].

        Returns:
            [B, 1, H + 1, ...].

        Raises:
            ValueError: the learner has no decoder of the observation.
        """
        decoded: Tensor = self._learner.predict_multi_step(observation, plan, target_field="observation")
        return decoded.unsqueeze(1)

    @property
    def _learner(self) -> Any:
        if not self._latent_module:
            raise ValueError(
                f"{self.name} has nothing to plan with: use it in an Agent with a PredictiveRepresentationLearner, or call "
                "set_latent_predictive_representation_module()"
            )
        return self._latent_module[0]

    # Learning.

    def train_step(self, exp: TimeStep, state: MbrlState, rollout_info: Nest = None) -> AlgStep:
        """Nothing: the representation learner learns."""
        return AlgStep(state=state)

    def train_recurrent_sequences(self, inputs: TimeStep, state: MbrlState, rollout_info: Nest) -> Any:
        """Nothing."""
        return ()

    def calc_loss(self, training_info: MbrlInfo) -> LossInfo:
        """No loss."""
        return LossInfo()

    # Builders.

    def _check_settings(self, config: TrainerConfig | None, name: str) -> None:
        """Nothing here learns, from whatever sequences."""

    def _make_model(
        self,
        feature_spec: TensorSpec,
        action_spec: BoundedTensorSpec,
        dynamics_module_ctor: Callable[..., DynamicsLearningAlgorithm] | None,
        reward_module: RewardModule | None,
        name: str,
    ) -> tuple[DynamicsLearningAlgorithm | None, RewardEstimationAlgorithm | None]:
        return None, None
