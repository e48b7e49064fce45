"""MuZero (Schrittwieser et al. 2020, arXiv:1911.08265): tree search with a model that is learnt from what the search finds.

A composition of two algorithms: `MuzeroRepresentationImpl` has the model and trains it; `MCTSAlgorithm` acts by searching
with it, and has no parameters.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from rein.algorithms.search.construction import check_no_reward_transformer
from rein.algorithms.search.mcts import MCTSAlgorithm, MCTSState
from rein.algorithms.search.modes import in_eval_mode
from rein.algorithms.search.planning import Tree
from rein.algorithms.search.representation_impl import MuzeroInfo, MuzeroRepresentationImpl
from rein.algorithms.search.roots import SearchRoot
from rein.config import configurable
from rein.data_structures import AlgStep, BatchInfo, LossInfo, TimeStep
from rein.envs import Environment
from rein.framework import OffPolicyAlgorithm, TrainerConfig
from rein.nest import Nest
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.transforms import DataTransformer


@configurable
class MuzeroAlgorithm(OffPolicyAlgorithm):
    """Acts by tree search, and trains the model that it searches with."""

    takes_action_masks: ClassVar[bool] = True
    """Whether a mask of valid actions in the observation is respected: forbidden ones are not searched."""
    values_are_of_player_0: ClassVar[bool] = True
    """Whether it plays both sides of a game of two by itself, with values of player 0."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: BoundedTensorSpec,
        discount: float,
        reward_spec: TensorSpec = TensorSpec(()),
        representation_learner_ctor: Callable[..., MuzeroRepresentationImpl] = MuzeroRepresentationImpl,
        mcts_algorithm_ctor: Callable[..., MCTSAlgorithm] = MCTSAlgorithm,
        reward_transformer: Callable[[Tensor], Tensor] | None = None,
        config: TrainerConfig | None = None,
        enable_amp: bool = True,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "MuZero",
        env: Environment | None = None,
        optimizer: Any | None = None,
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the observation; the fields `valid_action_mask`, `steps` and `to_play` of a dictionary
                are for the search.
            action_spec: bounded spec of the action.
            discount: of rewards, per step.
            reward_spec: must be a scalar.
            representation_learner_ctor: called as `ctor(observation_spec=, action_spec=, reward_spec=, discount=,
                reward_transformer=, enable_amp=, config=, debug_summaries=, name=)`.
            mcts_algorithm_ctor: called as `ctor(observation_spec=, action_spec=, discount=, debug_summaries=, name=)`.
            reward_transformer: applied to rewards; running statistics follow those of rollouts.
            config: settings of the run.
            enable_amp: mixed precision in evaluation and reanalysis, on accelerators; never in rollouts.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
            env: batched environment; for the root algorithm only.
            optimizer: of the model; None leaves it to the learner's own, or to the parent.
        """
        learner = representation_learner_ctor(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            discount=discount,
            reward_transformer=reward_transformer,
            enable_amp=enable_amp,
            config=config,
            debug_summaries=debug_summaries,
            name=f"{name}.learner",
        )
        mcts = mcts_algorithm_ctor(
            observation_spec=observation_spec,
            action_spec=action_spec,
            discount=discount,
            debug_summaries=debug_summaries,
            name=f"{name}.mcts",
        )
        _check_players(observation_spec, mcts, name)
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            train_state_spec=mcts.train_state_spec,
            rollout_state_spec=mcts.rollout_state_spec,
            predict_state_spec=mcts.predict_state_spec,
            env=env,
            config=config,
            optimizer=optimizer,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
        )
        mcts.set_model(learner.model)
        self._learner = learner
        self._mcts = mcts
        self._reward_transformer = reward_transformer
        self._enable_amp = enable_amp

    @property
    def model(self) -> Any:
        """The model."""
        return self._learner.model

    @property
    def mcts(self) -> MCTSAlgorithm:
        """What searches."""
        return self._mcts

    @property
    def last_tree(self) -> Tree | None:
        """The trees of the last search, until the next one; for showing what was thought."""
        return self._mcts.last_tree

    def set_path(self, path: str) -> None:
        """Sets the path; the learner looks up what was stored at the same one."""
        super().set_path(path)
        self._learner.set_path(path)
        self._mcts.set_path(path)

    def set_data_transformer(self, transformer: DataTransformer) -> None:
        """Acts and learns through `transformer` from now on; those of rewards are refused."""
        check_no_reward_transformer(transformer, self.name)
        super().set_data_transformer(transformer)

    # Acting.

    def predict_step(self, time_step: TimeStep, state: MCTSState) -> AlgStep:
        """Searches from observations [B, ...] and draws actions for evaluation."""
        kind = time_step.step_type.device.type
        with torch.autocast(kind, enabled=self._enable_amp and kind == "cuda"):
            return self._mcts.predict_step(self._encoded(time_step), state)

    def rollout_step(self, time_step: TimeStep, state: MCTSState) -> AlgStep:
        """Searches from observations [B, ...] and draws actions to collect data."""
        if self._reward_transformer is not None:
            time_step = time_step._replace(reward=self._reward_transformer(time_step.reward))
        return self._mcts.rollout_step(self._encoded(time_step), state)

    @torch.no_grad()
    def _encoded(self, time_step: TimeStep) -> TimeStep:
        model = self._learner.model
        with in_eval_mode(model):
            latent = model.initial_representation(time_step.observation)
        return time_step._replace(observation=SearchRoot.of(time_step.observation, latent))

    # Learning.

    def preprocess_experience(
        self, root_inputs: TimeStep, rollout_info: Nest, batch_info: BatchInfo
    ) -> tuple[TimeStep, MuzeroInfo]:
        """See `MuzeroRepresentationImpl`."""
        return self._learner.preprocess_experience(root_inputs, rollout_info, batch_info)

    def train_step(self, exp: TimeStep, state: MCTSState, rollout_info: MuzeroInfo) -> AlgStep:
        """See `MuzeroRepresentationImpl`."""
        return self._learner.train_step(exp, state, rollout_info)

    def calc_loss(self, info: MuzeroInfo) -> LossInfo:
        """See `MuzeroRepresentationImpl`."""
        return self._learner.calc_loss(info)

    def after_update(self, root_inputs: Nest, info: MuzeroInfo) -> None:
        """See `MuzeroRepresentationImpl`."""
        self._learner.after_update(root_inputs, info)


def _check_players(observation_spec: Nest, mcts: MCTSAlgorithm, name: str) -> None:
    if mcts.rules.is_two_player_game and not (isinstance(observation_spec, dict) and "to_play" in observation_spec):
        raise ValueError(
            f"{name} searches for two players, but the observation does not say whose turn it is: set "
            "is_two_player_game=False for one player, or let the environment give a dictionary with the field 'to_play'"
        )
