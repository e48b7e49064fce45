"""`Agent`: an RL algorithm and the parts that help it, as one algorithm.

What flows where, at each step:

    observation -> representation learner -> goal generator -> [representation, goal] -> RL algorithm -> action
    [representation, goal] -> intrinsic reward module -> reward -> RL algorithm
    action distribution -> entropy target -> loss
    reward of the environment -> reward weights -> RL algorithm

Every part is optional but the RL algorithm. States, infos and losses go by the names of the fields of `AgentState` and
`AgentInfo`; a field whose part is not used is `()` and costs nothing.

On-policy, intrinsic rewards are added to the reward when the rollout computes them. Off-policy they are stored with the
step, and added when it is sampled.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.agents.composition import AgentHelper, train_on_sequences
from rein.agents.legality import check_composition
from rein.agents.parts import Part, entropy_target_for, make_parts
from rein.algorithms.on_policy import ActorCriticAlgorithm
from rein.config import configurable
from rein.data_structures import AlgStep, BatchInfo, Experience, LossInfo, TimeStep
from rein.distributions import map_params, stack_distributions
from rein.envs import Environment
from rein.framework import Algorithm, QuickActor, RLAlgorithm, TrainerConfig
from rein.nest import Nest
from rein.networks.state import zero_state
from rein.runtime import summary
from rein.specs import TensorSpec
from rein.statistics import frozen_statistics


class AgentState(NamedTuple):
    """States of the parts."""

    rl: Nest = ()
    irm: Nest = ()
    goal_generator: Nest = ()
    repr: Nest = ()
    rw: Nest = ()


class AgentInfo(NamedTuple):
    """Infos of the parts."""

    rl: Nest = ()
    irm: Nest = ()
    """Of the intrinsic reward module."""
    goal_generator: Nest = ()
    entropy_target: Nest = ()
    repr: Nest = ()
    """Of the representation learner."""
    rw: Nest = ()
    """Of the reward weight algorithm."""
    rewards: Nest = ()
    """Dict of rewards [B] that parts gave, by their fields."""


@configurable
class Agent(RLAlgorithm):
    """An RL algorithm composed with a representation learner, goals, intrinsic rewards, an entropy target, reward weights."""

    is_compilable = True

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        rl_algorithm_cls: Callable[..., RLAlgorithm] = ActorCriticAlgorithm,
        reward_weight_algorithm_cls: Callable[..., Algorithm] | None = None,
        representation_learner_cls: Callable[..., Algorithm] | None = None,
        representation_use_rl_state: bool = False,
        goal_generator: Part | None = None,
        intrinsic_reward_module: Part | None = None,
        intrinsic_reward_coef: float = 1.0,
        extrinsic_reward_coef: float = 1.0,
        enforce_entropy_target: bool = False,
        entropy_target_cls: Callable[..., Algorithm] | None = None,
        optimizer: Any | None = None,
        debug_summaries: bool = False,
        name: str = "AgentAlgorithm",
    ) -> None:
        """Makes the agent; raises `ValueError` if parts cannot be used together.

        Args:
            observation_spec: specs of the observation.
            action_spec: bounded specs of the action.
            reward_spec: a scalar, or a vector for several rewards.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            rl_algorithm_cls: called as `cls(observation_spec=, action_spec=, reward_spec=, config=, debug_summaries=)`; its
                observation is what the parts before it make.
            reward_weight_algorithm_cls: called as `cls(reward_spec=, debug_summaries=)`; its `reward_weights` become those
                of the RL algorithm.
            representation_learner_cls: called like `rl_algorithm_cls`; its output is the observation of the others.
            representation_use_rl_state: in rollout and evaluation, give the representation learner the state of the RL
                algorithm in the place of its own.
            goal_generator: its output is (goal, reward); the others observe [observation, goal]. The reward may be `()`,
                and its `action_spec` is that of the goal. Maybe a function of (observation_spec, action_spec) that makes it.
            intrinsic_reward_module: its output is a reward [B]. Maybe a function of (observation_spec, action_spec) that
                makes it, where the observation is [observation, goal] if there are goals.
            intrinsic_reward_coef: factor of its reward.
            extrinsic_reward_coef: factor of the reward of the environment.
            enforce_entropy_target: use `EntropyTargetAlgorithm`, or `NestedEntropyTargetAlgorithm` for a nest of actions.
            entropy_target_cls: use this instead, called as `cls(action_spec, debug_summaries=)`.
            optimizer: of all parameters that no part has an optimizer for.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        if enforce_entropy_target and entropy_target_cls is None:
            entropy_target_cls = entropy_target_for(action_spec)
        parts = make_parts(
            observation_spec,
            action_spec,
            reward_spec,
            config,
            debug_summaries,
            rl=rl_algorithm_cls,
            representation=representation_learner_cls,
            goal_generator=goal_generator,
            irm=intrinsic_reward_module,
            entropy_target=entropy_target_cls,
            reward_weights=reward_weight_algorithm_cls,
        )
        check_composition(name, config, parts, action_spec, reward_spec, representation_use_rl_state)
        helper = AgentHelper(AgentState)
        parts.register(helper)
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            **helper.state_specs(),
            env=env,
            config=config,
            optimizer=optimizer,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._rl_algorithm = parts.rl
        self._representation_learner = parts.repr
        self._goal_generator = parts.goal_generator
        self._irm = parts.irm
        self._entropy_target_algorithm = parts.entropy_target
        self._reward_weight_algorithm = parts.rw
        self._representation_use_rl_state = representation_use_rl_state
        self._intrinsic_reward_coef = intrinsic_reward_coef
        self._extrinsic_reward_coef = extrinsic_reward_coef
        self._helper = helper
        self._reward_infos: list[Nest] = []
        learning = (parts.repr, parts.goal_generator, parts.irm, parts.rl, parts.entropy_target)
        self._parts: list[Algorithm] = [part for part in learning if part is not None]
        self.set_on_policy(bool(parts.rl.on_policy))
        self._take_reward_weights()

    def _trainable_attributes_to_ignore(self) -> list[str]:
        # Reward weights are trained once per iteration, by their own optimizer.
        return ["_reward_weight_algorithm"]

    def set_on_policy(self, is_on_policy: bool) -> None:
        """Decides for all parts."""
        super().set_on_policy(is_on_policy)
        for part in self._all_parts():
            part.set_on_policy(is_on_policy)

    def set_path(self, path: str) -> None:
        """Tells every part where its info stands."""
        super().set_path(path)
        for part in self._all_parts():
            field = self._helper.field_of(part)
            part.set_path(f"{path}.{field}" if path else field)

    def _all_parts(self) -> list[Algorithm]:
        return self._parts if self._reward_weight_algorithm is None else [*self._parts, self._reward_weight_algorithm]

    @property
    def reward_weights(self) -> Tensor | None:
        """Weights of a vector reward in the RL algorithm, [D]; None for a scalar reward."""
        return self._rl_algorithm.reward_weights

    def set_reward_weights(self, reward_weights: Tensor) -> None:
        """Changes the weights of a vector reward in the RL algorithm, [D]."""
        self._rl_algorithm.set_reward_weights(reward_weights)

    def _take_reward_weights(self) -> None:
        if self._reward_weight_algorithm is not None:
            self._rl_algorithm.set_reward_weights(self._reward_weight_algorithm.reward_weights)  # type: ignore[arg-type]

    def convert_train_state_to_predict_state(self, state: AgentState) -> AgentState:
        """The part of a state of `train_step` that `predict_step` needs; goals are drawn anew."""
        rl, representation, goals = self._rl_algorithm, self._representation_learner, self._goal_generator
        converted = AgentState(rl=rl.convert_train_state_to_predict_state(state.rl))
        if representation is not None:
            converted = converted._replace(repr=representation.convert_train_state_to_predict_state(state.repr))
        if goals is not None and not nest.is_empty(goals.predict_state_spec):
            size = nest.get_nest_batch_size(state)
            converted = converted._replace(goal_generator=zero_state(goals.predict_state_spec, size))
        return converted

    # Acting.

    def predict_step(self, inputs: TimeStep, state: AgentState) -> AlgStep:
        """Acts for evaluation; intrinsic rewards are not computed."""
        seen, new_state, info, _ = self._observe("predict_step", inputs, state)
        step = self._rl_algorithm.predict_step(seen, state.rl)
        if self._reward_weight_algorithm is not None:
            rw_step = self._reward_weight_algorithm.predict_step(inputs, state.rw)
            new_state = new_state._replace(rw=rw_step.state)
        return AlgStep(step.output, new_state._replace(rl=step.state), info._replace(rl=step.info))

    def rollout_step(self, inputs: TimeStep, state: AgentState) -> AlgStep:
        """Acts to collect data, with all rewards computed."""
        seen, new_state, info, rewards = self._observe("rollout_step", inputs, state)
        if self._irm is not None:
            irm_step = self._irm.rollout_step(seen, state.irm)
            rewards["irm"] = irm_step.output
            new_state, info = new_state._replace(irm=irm_step.state), info._replace(irm=irm_step.info)
        if rewards:
            info = info._replace(rewards=rewards)
        step = self._rl_algorithm.rollout_step(
            seen._replace(reward=self._overall_reward(inputs.reward, rewards)), state.rl
        )
        new_state, info = new_state._replace(rl=step.state), info._replace(rl=step.info)
        if self._entropy_target_algorithm is not None:
            distribution = step.info.action_distribution
            entropy_step = self._entropy_target_algorithm.rollout_step((distribution, inputs.step_type))  # type: ignore[call-arg]
            info = info._replace(entropy_target=entropy_step.info)
        if self._reward_weight_algorithm is not None:
            rw_step = self._reward_weight_algorithm.rollout_step(inputs, state.rw)
            new_state, info = new_state._replace(rw=rw_step.state), info._replace(rw=rw_step.info)
        return AlgStep(output=step.output, state=new_state, info=info)

    def quick_actor(self) -> QuickActor | None:
        """That of the RL algorithm, if no part stands before it and none looks at each step's outcome."""
        others = (self._representation_learner, self._goal_generator, self._reward_weight_algorithm)
        if type(self).rollout_step is not Agent.rollout_step or any(part is not None for part in others):
            return None
        return self._rl_algorithm.quick_actor()

    def rollout_infos(self, inputs: TimeStep, action: Nest, num_acted: int) -> AgentInfo:
        """See `rollout_step`, for actions picked by `quick_actor`; time comes before worlds, both in one dimension."""
        info, rewards = AgentInfo(), {}
        if self._irm is not None:
            rewards["irm"], irm_info = self._intrinsic_rewards(inputs, num_acted)
            info = info._replace(irm=irm_info, rewards=rewards)
        overall = inputs._replace(reward=self._overall_reward(inputs.reward, rewards))
        info = info._replace(rl=self._rl_algorithm.rollout_infos(overall, action, num_acted))
        if self._entropy_target_algorithm is not None:
            seen = (info.rl.action_distribution, inputs.step_type)
            info = info._replace(entropy_target=self._entropy_target_algorithm.rollout_step(seen).info)  # type: ignore[call-arg]
        return info

    def _intrinsic_rewards(self, inputs: TimeStep, num_acted: int) -> tuple[Tensor, Nest]:
        """Rewards and infos at [T * B] steps, one time after the other: what they are normalized by moves with each."""
        assert self._irm is not None
        worlds = self.rollout.env.batch_size
        steps = []
        for start in range(0, len(inputs.step_type), worlds):
            row = nest.map_structure(lambda tensor, start=start: tensor[start : start + worlds], inputs)
            with nullcontext() if start < num_acted else frozen_statistics():
                steps.append(self._irm.rollout_step(row, ()))
        infos = map_params(lambda tensor: tensor.flatten(0, 1), stack_distributions([step.info for step in steps]))
        return torch.cat([step.output for step in steps]), infos

    def _observe(
        self, kind: str, inputs: TimeStep, state: AgentState
    ) -> tuple[TimeStep, AgentState, AgentInfo, dict[str, Tensor]]:
        """What the RL algorithm sees of a time step, by `predict_step` or `rollout_step` of the parts before it."""
        new_state, info, rewards = AgentState(), AgentInfo(), {}
        if self._representation_learner is not None:
            before = state.rl if self._representation_use_rl_state else state.repr
            step = getattr(self._representation_learner, kind)(inputs, before)
            inputs = inputs._replace(observation=step.output)
            new_state, info = new_state._replace(repr=step.state), info._replace(repr=step.info)
        if self._goal_generator is not None:
            step = getattr(self._goal_generator, kind)(inputs, state.goal_generator)
            goal, reward = step.output
            if isinstance(reward, Tensor):
                rewards["goal_generator"] = reward
            inputs = inputs._replace(observation=[inputs.observation, goal])
            new_state = new_state._replace(goal_generator=step.state)
            info = info._replace(goal_generator=step.info)
        return inputs, new_state, info, rewards

    def _overall_reward(
        self,
        extrinsic: Tensor,
        rewards: dict[str, Tensor],
        summarize_fn: Callable[[str, Tensor], None] = lambda name, reward: None,
    ) -> Tensor:
        """The reward that the RL algorithm learns from."""
        if not rewards and self._extrinsic_reward_coef == 1.0:
            return extrinsic
        weights = {"irm": self._intrinsic_reward_coef, "goal_generator": 1.0}
        return self._helper.accumulate_algorithm_rewards(
            [extrinsic, *rewards.values()],
            [self._extrinsic_reward_coef, *(weights[name] for name in rewards)],
            ["extrinsic", *rewards],
            f"{self._name}/reward",
            summarize_fn,
        )

    # Learning.

    def observe_for_replay(self, exp: Experience) -> None:
        """Stores a step; what reward weights are tuned by is kept until the end of the iteration too."""
        if self._reward_weight_algorithm is not None:
            self._reward_infos.append(exp.rollout_info.rw)
        super().observe_for_replay(exp)

    def preprocess_experience(
        self, root_inputs: TimeStep, rollout_info: AgentInfo, batch_info: BatchInfo
    ) -> tuple[TimeStep, AgentInfo]:
        """Adds intrinsic rewards to those of the environment, [B, T], then lets the parts prepare."""
        rewards = rollout_info.rewards or {}
        root_inputs = root_inputs._replace(reward=self._overall_reward(root_inputs.reward, rewards))
        processed = rollout_info._replace(rewards=(), rw=())
        for part in self._parts:
            field = self._helper.field_of(part)
            root_inputs, info = part.preprocess_experience(root_inputs, getattr(processed, field), batch_info)
            processed = processed._replace(**{field: info})
        return root_inputs, processed

    def train_step(self, time_step: TimeStep, state: AgentState, rollout_info: AgentInfo) -> AlgStep:
        """One step of every part, on stored steps [B, ...]."""
        return self._train(time_step, state, rollout_info, lambda part, *inputs: part.train_step(*inputs))

    def train_step_offline(
        self, time_step: TimeStep, state: AgentState, rollout_info: AgentInfo, pre_train: bool = False
    ) -> AlgStep:
        """One step of every part, on steps [B, ...] of offline data."""
        return self._train(
            time_step,
            state,
            rollout_info,
            lambda part, *inputs: part.train_step_offline(*inputs, pre_train=pre_train),
        )

    def _train(
        self, inputs: TimeStep, state: AgentState, rollout_info: AgentInfo, train: Callable[..., AlgStep]
    ) -> AlgStep:
        new_state, info = AgentState(), AgentInfo()
        if self._representation_learner is not None:
            step = train(self._representation_learner, inputs, state.repr, rollout_info.repr)
            inputs = inputs._replace(observation=step.output)
            new_state, info = new_state._replace(repr=step.state), info._replace(repr=step.info)
        if self._goal_generator is not None:
            step = train(self._goal_generator, inputs, state.goal_generator, rollout_info.goal_generator)
            inputs = inputs._replace(observation=[inputs.observation, step.output[0]])
            new_state = new_state._replace(goal_generator=step.state)
            info = info._replace(goal_generator=step.info)
        if self._irm is not None:
            step = train(self._irm, inputs, state.irm, rollout_info.irm)
            new_state, info = new_state._replace(irm=step.state), info._replace(irm=step.info)
        step = train(self._rl_algorithm, inputs, state.rl, rollout_info.rl)
        info = info._replace(rl=step.info, entropy_target=self._entropy_info(step.info, inputs.step_type))
        return AlgStep(output=step.output, state=new_state._replace(rl=step.state), info=info)

    @property
    def has_own_offline_step(self) -> bool:
        """Whether any part has one."""
        return any(part.has_own_offline_step for part in self._parts)

    def offline_rollout_info(self, experience: Experience, known: Nest = None) -> AgentInfo:
        """What the data has of it, else that of the RL algorithm, in its place."""
        if experience.rollout_info:
            return experience.rollout_info
        of_rl = known.rl if isinstance(known, AgentInfo) else None
        return AgentInfo(rl=self._rl_algorithm.offline_rollout_info(experience, of_rl))

    def train_sequences(self, inputs: TimeStep, state: Nest, rollout_info: AgentInfo) -> AgentInfo:
        """Infos [T, B, ...] of sequences [B, T, ...], each part by what it leaves out of them."""
        state = AgentState() if nest.is_empty(state) else state
        return self._train_sequences(inputs, state, rollout_info, lambda part: True)

    def train_recurrent_sequences(self, inputs: TimeStep, state: AgentState, rollout_info: AgentInfo) -> AgentInfo:
        """Infos [T, B, ...] of sequences [B, T, ...]; step after step only the parts that are recurrent."""
        return self._train_sequences(inputs, state, rollout_info, lambda part: nest.is_empty(part.train_state_spec))

    def _train_sequences(
        self, inputs: TimeStep, state: AgentState, rollout_info: AgentInfo, at_once: Callable[[Algorithm], bool]
    ) -> AgentInfo:
        info = AgentInfo()
        if self._representation_learner is not None:
            part = self._representation_learner
            step = train_on_sequences(part, inputs, state.repr, rollout_info.repr, at_once(part))
            inputs, info = inputs._replace(observation=step.output), info._replace(repr=step.info)
        if self._goal_generator is not None:
            part = self._goal_generator
            step = train_on_sequences(part, inputs, state.goal_generator, rollout_info.goal_generator, at_once(part))
            inputs = inputs._replace(observation=[inputs.observation, step.output[0]])
            info = info._replace(goal_generator=step.info)
        for part in [self._rl_algorithm] if self._irm is None else [self._irm, self._rl_algorithm]:
            field = self._helper.field_of(part)
            train = part.train_sequences if at_once(part) else part.train_recurrent_sequences
            part_info = train(inputs, getattr(state, field), getattr(rollout_info, field))
            info = info._replace(**{field: part_info})
        return info._replace(entropy_target=self._entropy_info(info.rl, inputs.step_type.transpose(0, 1)))

    def _entropy_info(self, rl_info: Any, step_type: Tensor) -> Nest:
        """What the entropy target needs of the action distributions of training."""
        if self._entropy_target_algorithm is None:
            return ()
        distribution = rl_info.action_distribution
        return self._entropy_target_algorithm.train_step((distribution, step_type)).info  # type: ignore[call-arg]

    def calc_loss(self, info: AgentInfo) -> LossInfo:
        """The sum of the losses of the parts."""
        return self._helper.accumulate_loss_info(self._parts, info)

    def calc_loss_offline(self, info: AgentInfo, pre_train: bool = False) -> LossInfo:
        """The sum of the losses of the parts on offline data."""
        return self._helper.accumulate_loss_info(self._parts, info, offline=True, pre_train=pre_train)

    def after_update(self, root_inputs: Nest, info: AgentInfo) -> None:
        """Lets the parts do what follows an update."""
        self._helper.after_update(self._parts, root_inputs, info)

    def after_train_iter(self, root_inputs: Nest | None, rollout_info: AgentInfo | None) -> None:
        """Lets the parts do what follows an iteration; new reward weights go to the RL algorithm."""
        self._helper.after_train_iter(self._parts, root_inputs, rollout_info)
        if self._reward_weight_algorithm is not None:
            info = None if rollout_info is None else rollout_info.rw
            if rollout_info is None and self._reward_infos:
                info = nest.stack_nests(self._reward_infos)
            self._reward_infos = []
            self._reward_weight_algorithm.after_train_iter(root_inputs, info)
            self._take_reward_weights()

    # Summaries.

    def summarize_rollout(
        self, experience: Experience, custom_summary: Callable[[Experience], None] | None = None
    ) -> None:
        """Writes what all RL algorithms write, the rewards of the parts, and what the RL algorithm adds."""
        super().summarize_rollout(experience, custom_summary)

        def write(name: str, reward: Tensor) -> None:
            summary.scalar(f"{name}.mean", reward.mean())
            summary.scalar(f"{name}.std", reward.std(unbiased=False))

        self._overall_reward(experience.reward, experience.rollout_info.rewards or {}, write)
        rl = self._rl_algorithm
        if type(rl).summarize_rollout is not RLAlgorithm.summarize_rollout:
            rl.summarize_rollout(experience._replace(rollout_info=experience.rollout_info.rl))
