"""A learner as the root algorithm of a run, so that trainers and schemes drive it as they drive any algorithm.

Acting, gradients and steps are the learner's own; environments, replay buffer, evaluation, checkpoints and workers are those
of every run. Rows of its batches are transitions of n steps:

    reward = sum_k gamma^k r_{t+k+1} up to the end of the episode,
    1 - done' = gamma^{m-n} d_{t+m} where that is after m of the n steps

so that values are bootstrapped through a time limit. Rows that begin where an episode has ended have no weight.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rein.config import configurable
from rein.data_structures import AlgStep, BatchInfo, Experience, LossInfo, StepType, TimeStep
from rein.envs import Environment
from rein.framework import Batch, Gradients, ReplayTraining
from rein.framework.off_policy_algorithm import OffPolicyAlgorithm
from rein.framework.steps import time_major
from rein.framework.trainer_config import TrainerConfig
from rein.framework.updating.gradients import importance_weights
from rein.framework.updating.settings import UpdateSettings
from rein.learners.base import Learner
from rein.learners.batches import ACT, DONE, DONE2, N_STEP, OBS, OBS2, PER_WEIGHTS, REW, RHS, RHS2, each
from rein.nest import Nest
from rein.runtime.run import current_run_or_none
from rein.specs import BoundedTensorSpec, TensorSpec

_STATES = ("rhs_act", "rhs_q1", "rhs_q2")


@configurable
class LearnerAlgorithm(OffPolicyAlgorithm):
    """Trains by a learner."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: BoundedTensorSpec,
        learner: Callable[..., Learner],
        actor: Callable[..., Any],
        reward_spec: TensorSpec = TensorSpec(()),
        n_step: int = 1,
        sequence_length: int = 8,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        debug_summaries: bool = False,
        name: str = "LearnerAlgorithm",
    ) -> None:
        """Makes actor and learner.

        Args:
            observation_spec: specs of the observation.
            action_spec: of one continuous action, or of one discrete action counted from 0.
            learner: from `create_factory` of a learner. `update_every`, `num_updates`, `mini_batch_size` and `start_steps`
                are taken from it, in steps of all environments at once, in the place of what `config` has.
            actor: called as `actor(observation_spec, action_spec)`; see `rein.learners.base`.
            reward_spec: a scalar.
            n_step: steps of a transition.
            sequence_length: rows of each sequence that a recurrent actor learns from.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        if reward_spec.ndim:
            raise ValueError(f"{name} needs a scalar reward, got {reward_spec}: weigh it into one number first")
        if n_step < 1:
            raise ValueError(f"{name}: n_step is {n_step}: it must be at least 1")
        run = current_run_or_none()
        made = learner("cpu" if run is None else run.device, actor(observation_spec, action_spec), env)
        recurrent = made.actor.is_recurrent
        if recurrent and n_step > 1:
            raise ValueError(f"{name}: sequences of a recurrent actor are of single steps: leave out n_step={n_step}")
        if config is not None:
            _take_sizes(config, made, n_step, sequence_length if recurrent else 0, 1 if env is None else env.batch_size)
        state_spec: Nest = ()
        if recurrent:
            state_spec = {key: TensorSpec(one.shape[1:]) for key, one in made.actor.initial_rhs(1).items()}
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            train_state_spec=state_spec,
            reward_spec=reward_spec,
            env=env,
            config=config,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._n_step, self._is_recurrent = n_step, recurrent
        self._random_steps = made.start_steps * (1 if env is None else env.batch_size)
        self._actor, self._targets = made.actor, made.actor_targets
        # In a list: a learner is no module, and its networks are children already.
        self._learner = [made]

    @property
    def learner(self) -> Learner:
        """What learns."""
        return self._learner[0]

    def _trainable_attributes_to_ignore(self) -> list[str]:
        return ["_actor", "_targets"]

    # Acting.

    def predict_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        """The best action."""
        return self._act(inputs, state, deterministic=True)

    def rollout_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        """An action with exploration; uniformly random ones during the first steps of a run."""
        step = self._act(inputs, state, deterministic=False)
        run = current_run_or_none()
        if run is not None and run.env_steps < self._random_steps:
            step = step._replace(output=self._action_spec.sample(inputs.step_type.shape))
        return step._replace(info=step.output)

    def _act(self, inputs: TimeStep, state: Nest, deterministic: bool) -> AlgStep:
        done = inputs.is_first().float().unsqueeze(-1)
        rhs = state if self._is_recurrent else dict.fromkeys(_STATES, torch.zeros_like(done))
        _, action, rhs, _ = self.learner.acting_step(inputs.observation, rhs, done, deterministic)
        action = action.squeeze(-1).to(torch.int64) if self._action_spec.is_discrete else action
        return AlgStep(output=action, state=rhs if self._is_recurrent else ())

    # Learning.

    @property
    def learning(self) -> ReplayTraining:
        """How it learns from stored data: by the learner."""
        if self._learning is None:
            self._learning = LearnerTraining(self, UpdateSettings.of(self._config))
        return self._learning

    def set_update_settings(self, settings: UpdateSettings) -> None:
        """Lets it learn other than the settings of the run say."""
        self._learning = LearnerTraining(self, settings)

    def batch_of(self, experience: Experience, weights: Tensor | None) -> dict[str, Any]:
        """The documented batch of sequences [B, T, ...]; weights are [B]."""
        time_step = experience.time_step
        rows = _sequence_rows if self._is_recurrent else _transitions
        batch = rows(time_step, experience.rollout_info, self._n_step, self.learner.gamma)
        batch[N_STEP] = self._n_step
        if weights is not None:
            count = len(batch[REW]) // len(weights)
            batch[PER_WEIGHTS] = batch[PER_WEIGHTS] * weights.repeat_interleave(count).unsqueeze(-1)
        for key, step in ((RHS, 0), (RHS2, 1)):
            batch[key] = self._states(experience, step, batch[DONE])
        return batch

    def _states(self, experience: Experience, step: int, done: Tensor) -> dict[str, Tensor]:
        """Stored recurrent states before a step, or zeros."""
        if not self._is_recurrent:
            return dict.fromkeys(_STATES, torch.zeros_like(done))
        if isinstance(experience.state, Mapping):
            return {key: one[:, step] for key, one in experience.state.items()}
        states: dict[str, Tensor] = self.learner.actor.initial_rhs(experience.step_type.shape[0])
        return states

    # State.

    def get_extra_state(self) -> dict[str, Any]:
        """What travels with the weights: temperatures, exploration, the count of updates."""
        return {**self.learner._travelling_state(), "iter": self.learner.iter}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `get_extra_state` gave."""
        self.learner.iter = int(state["iter"])
        self.learner._take_travelling_state({key: one for key, one in state.items() if key != "iter"})

    def state_dict(  # type: ignore[override]
        self, destination: Any = None, prefix: str = "", visited: set[int] | None = None
    ) -> Any:
        """Parameters, and what the learner's optimizers keep."""
        state = super().state_dict(destination, prefix, visited)
        kept = {name: one.state_dict() for name, one in self.learner.optimizers.items() if one is not None}
        state[f"{prefix}_learner_optimizers"] = kept
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, skip_preloded: bool = True) -> Any:
        """Restores what `state_dict` gave."""
        state = dict(state_dict)
        kept = state.pop("_learner_optimizers", {})
        result = super().load_state_dict(state, strict, skip_preloded)
        for name, one in kept.items():
            self.learner.optimizers[name].load_state_dict(one)
        return result


class LearnerTraining(ReplayTraining):
    """Learning from stored data, with gradients and steps of a learner."""

    @property
    def _owner(self) -> LearnerAlgorithm:
        algorithm = self.learner
        assert isinstance(algorithm, LearnerAlgorithm)
        return algorithm

    def _optimized(self) -> Any:
        optimizers = list(self._owner.learner.optimizers.values())
        return optimizers, [
            one for optimizer in optimizers for group in optimizer.param_groups for one in group["params"]
        ]

    def compute_gradients(self, batches: Sequence[Batch]) -> Gradients:
        """Gradients of the learner, group by group."""
        (batch,) = batches
        learner, experience = self._owner.learner, batch.experience
        info = experience.batch_info
        weights = importance_weights(self.settings, info) if isinstance(info, BatchInfo) else None
        grads, report = learner.compute_gradients(self._owner.batch_of(experience, weights), grads_to_cpu=False)
        by_group = grads if isinstance(grads, dict) else {"q_grads": grads}
        values: list[Tensor | None] = []
        for group, optimizer in learner.optimizers.items():
            count = sum(len(part["params"]) for part in optimizer.param_groups)
            values.extend(by_group.get(group, [None] * count))
        errors = report.pop("errors")
        size = experience.step_type.shape[0]
        extra = {key: torch.as_tensor(value) for key, value in report.items()}
        losses = [value for key, value in extra.items() if key.startswith("loss")]
        return Gradients(
            values,
            LossInfo(loss=torch.stack(losses).sum(), extra=extra),
            [errors.reshape(size, -1).mean(-1)],
            time_major(experience.time_step),
        )

    def apply_gradients(self, gradients: Gradients) -> None:
        """A step of the learner."""
        learner, values = self._owner.learner, list(gradients.values)
        by_group = {}
        for group, optimizer in learner.optimizers.items():
            count = sum(len(part["params"]) for part in optimizer.param_groups)
            by_group[group], values = values[:count], values[count:]
        learner.apply_gradients(by_group)


def _take_sizes(config: TrainerConfig, learner: Learner, n_step: int, sequence_length: int, envs: int) -> None:
    """Lets a run have the sizes of the learner."""
    config.unroll_length = learner.update_every
    config.num_updates_per_train_iter = learner.num_mini_batch
    config.mini_batch_size = learner.mini_batch_size
    config.mini_batch_length = (sequence_length or n_step) + 1
    config.initial_collect_steps = max(learner.start_steps * envs, 1)
    config.whole_replay_buffer_training = config.clear_replay_buffer = False
    config.use_rollout_state = sequence_length > 0


def _transitions(time_step: TimeStep, action: Tensor, n_step: int, gamma: float) -> dict[str, Any]:
    """Transitions of n steps from the first step of [B, n + 1, ...] on."""
    is_last = time_step.step_type == StepType.LAST
    goes_on = torch.ones_like(time_step.reward[:, :1])
    reward, discount, steps = (torch.zeros_like(goes_on) for _ in range(3))
    following = each(lambda one: one[:, 0], time_step.observation)
    for k in range(n_step):
        now = slice(k + 1, k + 2)
        reward = reward + goes_on * gamma**k * time_step.reward[:, now]
        discount = torch.where(goes_on > 0, time_step.discount[:, now], discount)
        steps = steps + goes_on
        moved, taken = each(lambda one, k=k: one[:, k + 1], time_step.observation), goes_on.squeeze(-1) > 0
        following = _where(taken, moved, following)
        goes_on = goes_on * (~is_last[:, now]).float()
    return {
        OBS: each(lambda one: one[:, 0], time_step.observation),
        DONE: time_step.is_first()[:, :1].float(),
        ACT: _as_rows(action[:, 0]),
        REW: reward,
        OBS2: following,
        DONE2: 1.0 - discount * gamma ** (steps - n_step),
        PER_WEIGHTS: (~is_last[:, :1]).float(),
    }


def _sequence_rows(time_step: TimeStep, action: Tensor, n_step: int, gamma: float) -> dict[str, Any]:
    """All transitions of sequences [B, T, ...], one sequence after the other."""

    def rows(value: Any, begin: int) -> Any:
        return each(lambda one: one[:, begin : begin + one.shape[1] - 1].flatten(0, 1), value)

    is_first, is_last = time_step.is_first(), time_step.step_type == StepType.LAST
    # Where an episode begins, states are cleared; the transition to there has no weight.
    done = torch.maximum(1.0 - time_step.discount, is_first.float())
    return {
        OBS: rows(time_step.observation, 0),
        DONE: rows(is_first.float(), 0).unsqueeze(-1),
        ACT: _as_rows(rows(action, 0)),
        REW: rows(time_step.reward, 1).unsqueeze(-1),
        OBS2: rows(time_step.observation, 1),
        DONE2: rows(done, 1).unsqueeze(-1),
        PER_WEIGHTS: (~rows(is_last, 0)).float().unsqueeze(-1),
    }


def _as_rows(action: Tensor) -> Tensor:
    return action.float().unsqueeze(-1) if action.ndim == 1 else action


def _where(condition: Tensor, chosen: Any, other: Any) -> Any:
    if isinstance(chosen, Mapping):
        return {key: _where(condition, chosen[key], other[key]) for key in chosen}
    return torch.where(condition.reshape(-1, *(1,) * (chosen.ndim - 1)), chosen, other)
