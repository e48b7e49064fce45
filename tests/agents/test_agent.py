"""What an agent hands to whom."""

import itertools
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rein import nest
from rein.agents import Agent, AgentInfo, AgentState
from rein.data_structures import AlgStep, LossInfo, StepType, TimeStep
from rein.envs import create_environment
from rein.framework import Algorithm, OffPolicyAlgorithm, OnPolicyAlgorithm, TrainerConfig
from rein.networks.state import zero_state
from rein.runtime import Run, summary
from rein.runtime.writers import create_summary_writer
from rein.specs import TensorSpec

Build = Callable[..., Agent]


class Counting(gym.Env[Any, Any]):
    """Observation t and reward t at step t; episodes of three steps."""

    observation_space = gym.spaces.Box(-100, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return np.array([self.t], np.float32), float(self.t), self.t == 3, False, {}


class _Recorder:
    """Records the rewards and observations it is given, and counts its steps in a recurrent state if asked to."""

    def _setup(self) -> None:
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.acted: list[TimeStep] = []
        self.learnt: list[TimeStep] = []
        self.infos: list[Any] = []

    def predict_step(self, inputs: TimeStep, state: Any) -> AlgStep:
        return AlgStep(output=torch.zeros(inputs.step_type.shape[0], dtype=torch.int64))

    def rollout_step(self, inputs: TimeStep, state: Any) -> AlgStep:
        self.acted.append(inputs)
        size = inputs.step_type.shape[0]
        info = {"reward": inputs.reward, "w": self.weight.expand(size)}
        return AlgStep(output=torch.zeros(size, dtype=torch.int64), info=info)

    def train_step(self, inputs: TimeStep, state: Any, rollout_info: Any) -> AlgStep:
        self.learnt.append(inputs)
        return AlgStep(info={"reward": inputs.reward, "w": self.weight.expand(inputs.step_type.shape[0])})

    def calc_loss(self, info: Any) -> LossInfo:
        self.infos.append(info)
        return LossInfo(loss=info["w"])


class OnRecorder(_Recorder, OnPolicyAlgorithm):
    def __init__(self, observation_spec: Any, action_spec: Any, **arguments: Any) -> None:
        OnPolicyAlgorithm.__init__(self, observation_spec, action_spec, (), name="On", **arguments)
        self._setup()


class OffRecorder(_Recorder, OffPolicyAlgorithm):
    def __init__(self, observation_spec: Any, action_spec: Any, **arguments: Any) -> None:
        OffPolicyAlgorithm.__init__(self, observation_spec, action_spec, (), name="Off", **arguments)
        self._setup()


class Hundred(Algorithm):
    """An intrinsic reward of 100 + the observation."""

    def __init__(self) -> None:
        super().__init__(name="Hundred")

    def rollout_step(self, inputs: TimeStep, state: Any) -> AlgStep:
        observation = inputs.observation[0] if isinstance(inputs.observation, list) else inputs.observation
        return AlgStep(output=100.0 + observation[:, 0])

    def train_step(self, inputs: TimeStep, state: Any, rollout_info: Any = ()) -> AlgStep:
        return AlgStep()


class Negated(Algorithm):
    """The observation with the other sign."""

    output_spec = TensorSpec((1,))

    def __init__(self, **arguments: Any) -> None:
        super().__init__(name="Negated")
        self.states: list[Any] = []

    def predict_step(self, inputs: TimeStep, state: Any) -> AlgStep:
        self.states.append(state)
        return AlgStep(output=-inputs.observation)

    def rollout_step(self, inputs: TimeStep, state: Any) -> AlgStep:
        return self.predict_step(inputs, state)

    def train_step(self, inputs: TimeStep, state: Any, rollout_info: Any = ()) -> AlgStep:
        return AlgStep(output=-inputs.observation)


class Greedy(Algorithm):
    """A constant goal with the reward 1000."""

    action_spec = TensorSpec((2,))

    def __init__(self) -> None:
        super().__init__(name="Greedy")

    def rollout_step(self, inputs: TimeStep, state: Any) -> AlgStep:
        size = inputs.step_type.shape[0]
        return AlgStep(output=(torch.full((size, 2), 5.0), torch.full((size,), 1000.0)))

    def train_step(self, inputs: TimeStep, state: Any, rollout_info: Any = ()) -> AlgStep:
        return AlgStep(output=(torch.full((inputs.step_type.shape[0], 2), 5.0), ()))


def make(rl: Any, settings: dict[str, Any], **arguments: Any) -> Agent:
    torch.manual_seed(0)
    env = create_environment(Counting, 2, backend="sync", seed=0)
    config = TrainerConfig("", **settings)
    agent = Agent(
        env.observation_spec, env.action_spec, env.reward_spec, env=env, config=config, rl_algorithm_cls=rl, **arguments
    )
    agent.set_path("")
    return agent


FRESH = dict(unroll_length=4, mini_batch_size=2)
REPLAY = dict(
    unroll_length=6,
    mini_batch_length=2,
    mini_batch_size=16,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    replay_buffer_length=20,
)
INTRINSIC = dict(intrinsic_reward_module=lambda *specs: Hundred(), intrinsic_reward_coef=0.5, extrinsic_reward_coef=2.0)


def test_on_policy_the_reward_is_complete_when_the_algorithm_acts() -> None:
    agent = make(OnRecorder, dict(unroll_length=4), **INTRINSIC)
    agent.train_iter()
    # 2 t + 0.5 (100 + t)
    expected = [50.0, 52.5, 55.0, 57.5, 50.0]
    assert [step.reward[0].item() for step in agent._rl_algorithm.acted] == expected
    assert agent._rl_algorithm.infos[0]["reward"][:, 0].tolist() == expected


def test_on_fresh_rollouts_both_the_rollout_and_training_see_the_whole_reward() -> None:
    agent = make(OffRecorder, FRESH, **INTRINSIC)
    agent.train_iter()
    assert [step.reward[0].item() for step in agent._rl_algorithm.acted] == [50.0, 52.5, 55.0, 57.5, 50.0]
    learnt = torch.cat([step.reward for step in agent._rl_algorithm.learnt])
    observed = torch.cat([step.observation[:, 0] for step in agent._rl_algorithm.learnt])
    assert torch.equal(learnt, 50.0 + 2.5 * observed)


def test_off_policy_stored_rewards_are_added_to_sampled_ones() -> None:
    agent = make(OffRecorder, REPLAY, **INTRINSIC)
    for _ in range(2):
        agent.train_iter()
    buffer = agent.replay_buffer
    assert buffer is not None
    stored, _ = buffer.gather_all()
    assert torch.equal(stored.time_step.reward, stored.time_step.observation[..., 0])  # as the environment gave it
    assert torch.equal(stored.rollout_info.rewards["irm"], 100.0 + stored.time_step.observation[..., 0])
    learnt = agent._rl_algorithm.learnt[-1]
    assert torch.equal(learnt.reward, 50.0 + 2.5 * learnt.observation[:, 0])


def test_the_reward_of_goals_is_added_too_and_goals_are_observed() -> None:
    agent = make(OnRecorder, dict(unroll_length=2), goal_generator=Greedy(), **INTRINSIC)
    agent.train_iter()
    first = agent._rl_algorithm.acted[1]
    assert first.reward[0].item() == 52.5 + 1000.0
    assert first.observation[1].tolist() == [[5.0, 5.0]] * 2
    assert agent._rl_algorithm.observation_spec == [agent.observation_spec, TensorSpec((2,))]


def test_the_representation_is_what_the_others_observe() -> None:
    agent = make(OffRecorder, REPLAY, representation_learner_cls=Negated, goal_generator=Greedy(), **INTRINSIC)
    agent.train_iter()
    acted = agent._rl_algorithm.acted
    assert [step.observation[0][0].item() for step in acted[:3]] == [0.0, -1.0, -2.0]
    assert acted[1].reward[0].item() == 2.0 + 0.5 * 99.0 + 1000.0  # the intrinsic reward is that of -1
    learnt = agent._rl_algorithm.learnt[-1]
    assert (learnt.observation[0] <= 0).all()
    assert learnt.observation[1].shape == (32, 2)


def test_without_parts_nothing_is_stored_or_computed_besides() -> None:
    agent = make(OffRecorder, REPLAY)
    agent.train_iter()
    stored, _ = agent.replay_buffer.gather_all()  # type: ignore[union-attr]
    assert stored.rollout_info == AgentInfo(rl=stored.rollout_info.rl)
    assert nest.is_empty(agent.train_state_spec)
    assert nest.is_empty(agent.rollout_state_spec)
    inputs = agent._rl_algorithm.acted[0]
    assert agent._overall_reward(inputs.reward, {}) is inputs.reward


def test_the_extrinsic_factor_counts_without_parts_too() -> None:
    agent = make(OnRecorder, dict(unroll_length=2), extrinsic_reward_coef=3.0)
    agent.train_iter()
    assert [step.reward[0].item() for step in agent._rl_algorithm.acted] == [0.0, 3.0, 6.0]


def test_the_representation_learner_may_get_the_state_of_the_rl_algorithm(build: Build) -> None:
    agent = build("a2c_recurrent", "nothing", arguments={"representation_learner_cls": partial(Wide)})
    assert agent._representation_learner is not None
    state = zero_state(agent.rollout_state_spec, 2)
    time_step = nest.map_structure(torch.clone, agent.rollout.env.current_time_step())
    agent.rollout_step(time_step, state)
    assert agent._representation_learner.states[-1] == ()
    agent._representation_use_rl_state = True
    agent.rollout_step(time_step, state)
    assert agent._representation_learner.states[-1] is state.rl


class Wide(Negated):
    output_spec = TensorSpec((3,))


def test_paths_lead_to_the_infos(build: Build) -> None:
    agent = build("sac_continuous", "much")
    agent.set_path("outer")
    assert agent._rl_algorithm.path == "outer.rl"
    assert agent._representation_learner.path == "outer.repr"  # type: ignore[union-attr]
    assert agent._irm.path == "outer.irm"  # type: ignore[union-attr]
    assert agent._goal_generator.path == "outer.goal_generator"  # type: ignore[union-attr]


def test_losses_are_added_and_reported_by_name(build: Build) -> None:
    agent = build("ppo", "icm")
    agent.train_iter()
    time_step = nest.map_structure(torch.clone, agent.rollout.env.current_time_step())
    sequence = nest.map_structure(lambda x: torch.stack([x, x], 1), time_step._replace(step_type=torch.ones(2).int()))
    rollout = agent.rollout_step(time_step, zero_state(agent.rollout_state_spec, 2)).info
    rollout = agent._rl_algorithm.preprocess_experience(
        sequence,
        nest.map_structure(lambda x: x, _twice(rollout.rl)),
        (),  # type: ignore[arg-type]
    )[1]
    info = agent.train_recurrent_sequences(sequence, zero_state(agent.train_state_spec, 2), AgentInfo(rl=rollout))
    loss = agent.calc_loss(info)
    rl, irm = agent._rl_algorithm.calc_loss(info.rl), agent._irm.calc_loss(info.irm)  # type: ignore[union-attr]
    torch.testing.assert_close(loss.loss, rl.loss)
    torch.testing.assert_close(loss.scalar_loss, irm.scalar_loss)
    assert set(loss.extra) == {"rl", "irm"}


def _twice(info: Any) -> Any:
    from rein.distributions import map_params

    return map_params(lambda x: torch.stack([x, x], 1), info)


@pytest.mark.parametrize("algorithm", ["sac_continuous", "dqn", "ppo"])
def test_an_agent_of_nothing_else_trains_exactly_like_its_algorithm(build: Build, algorithm: str) -> None:
    agent = build(algorithm, "nothing")
    for _ in range(4):
        agent.train_iter()
    bare = _bare(build(algorithm, "nothing"))
    for _ in range(4):
        bare.train_iter()
    mine = dict(agent._rl_algorithm.named_parameters())
    for name, param in bare.named_parameters():
        assert torch.equal(param, mine[name]), name


def _bare(agent: Agent) -> Any:
    """The RL algorithm of a fresh agent, as a root of its own."""
    rl = agent._rl_algorithm
    rl._env, rl._config = agent._env, agent._config
    rl.optimizer_binding.default = agent.optimizer_binding.default
    rl._metrics = agent._metrics
    return rl


def test_recurrent_training_equals_steps_in_order(build: Build) -> None:
    """Parts evaluated over whole sequences give what `train_step` gives step after step."""
    from rein.data_structures import BatchInfo
    from rein.framework.steps import batch_major, steps_in_order

    for algorithm, part in (("ppo_recurrent", "much"), ("ppo", "icm"), ("td3", "recurrent_encoding"), ("dqn", "much")):
        agent = build(algorithm, part)
        agent.rollout.next_length(0)
        experience = agent.rollout.collect(6, with_grad=False)
        data = batch_major(experience)
        time_step, info = agent.preprocess_experience(data.time_step, data.rollout_info, BatchInfo())
        state = zero_state(agent.train_state_spec, 2)
        torch.manual_seed(0)
        together = agent.train_recurrent_sequences(time_step, state, info)
        torch.manual_seed(0)
        in_order = steps_in_order(agent.train_step, time_step, state, info).info
        a, b = agent.calc_loss(together), agent.calc_loss(in_order)
        if algorithm != "td3":  # draws noise for its targets in another order
            torch.testing.assert_close(a.loss, b.loss)
        if part != "recurrent_encoding":
            torch.testing.assert_close(a.scalar_loss, b.scalar_loss)


def test_one_transition_keeps_its_mean_beside_other_losses(build: Build) -> None:
    agent = build("sac_one_transition", "nothing")
    per_sequence = LossInfo(loss=torch.tensor([1.0, 3.0]))
    per_step = LossInfo(loss=torch.tensor([[1.0, 0.0], [2.0, 1.0]]), scalar_loss=torch.tensor(5.0))
    number = LossInfo(loss=torch.tensor(7.0), scalar_loss=torch.tensor(1.0))
    from rein.agents.composition import _of_one_shape
    from rein.framework.containers import sum_losses
    from rein.framework.updating.gradients import average

    total = sum_losses(_of_one_shape({"a": per_sequence, "b": per_step, "c": number}))
    assert average(total, None).loss.item() == pytest.approx(2.0 + 1.0 + 5.0 + 8.0)
    weights = torch.tensor([0.5, 2.0])
    expected = (0.5 + 6.0) / 2 + (0.5 * 1 + 0.5 * 2 + 2.0 * 1) / 4 + 5.0 + 8.0
    assert average(total, None, weights).loss.item() == pytest.approx(expected)
    with pytest.raises(ValueError, match="cannot be added"):
        _of_one_shape({"a": LossInfo(loss=torch.zeros(3)), "b": per_step})
    assert agent.on_policy is False


@pytest.mark.parametrize("algorithm", ["a2c", "ppo", "sac_continuous"])
def test_reward_weights_follow_the_rewards_of_every_iteration(build: Build, algorithm: str) -> None:
    agent = build(algorithm, "lagrangian")
    weights = [agent.reward_weights.clone()]  # type: ignore[union-attr]
    assert weights[0].tolist() == pytest.approx([0.5, 0.5])
    for _ in range(3):
        agent.train_iter()
        weights.append(agent.reward_weights.clone())  # type: ignore[union-attr]
    # Rewards are about 0 on average, less than the threshold 0.5: the second weight rises in every iteration.
    assert all(later[1] > earlier[1] for earlier, later in itertools.pairwise(weights))
    assert torch.equal(agent._rl_algorithm.reward_weights, weights[-1])
    assert agent._reward_infos == []


def test_reward_weights_follow_evaluations(build: Build) -> None:
    from rein.training.evaluation import evaluate

    agent = build("sac_continuous", "lagrangian_pred")
    agent.train_iter()
    before = agent.reward_weights.clone()  # type: ignore[union-attr]
    assert before.tolist() == pytest.approx([0.5, 0.5])
    evaluate(agent, agent.rollout.env, 2)
    agent.train_iter()
    assert agent.reward_weights[1] > before[1]  # type: ignore[index]


def test_other_illegal_settings_are_refused_with_the_reason(build: Build) -> None:
    with pytest.raises(ValueError, match="mini_batch_length is 1"):
        build("ppo", "icm", mini_batch_length=1)
    build("ppo", "icm", mini_batch_length=1, use_rollout_state=True).train_iter()
    build("ppo", "rnd", mini_batch_length=1).train_iter()
    with pytest.raises(ValueError, match="there is no representation learner"):
        build("ppo", "nothing", arguments={"representation_use_rl_state": True})
    with pytest.raises(ValueError, match=r"set TrainerConfig\.evaluate=True"):
        build("ppo", "lagrangian_pred", evaluate=False)
    with pytest.raises(ValueError, match="there are no weights"):
        build("ppo", "nothing", arguments={"reward_weight_algorithm_cls": Negated})
    with pytest.raises(ValueError, match="no place for it in a vector"):
        build("ppo", "lagrangian", arguments={"intrinsic_reward_module": Hundred()})


def test_parts_that_others_observe_need_specs() -> None:
    with pytest.raises(TypeError, match="Hundred has no output_spec"):
        make(OffRecorder, REPLAY, representation_learner_cls=lambda **specs: Hundred())
    with pytest.raises(TypeError, match="Hundred has no action_spec"):
        make(OffRecorder, REPLAY, goal_generator=Hundred())


def test_two_entropy_regularizations_are_refused(build: Build) -> None:
    from rein.algorithms.losses import PPOLoss
    from rein.algorithms.on_policy import PPOAlgorithm

    rl = partial(PPOAlgorithm, loss_class=partial(PPOLoss, entropy_regularization=0.01))
    with pytest.raises(ValueError, match="leave out one"):
        make(rl, FRESH, enforce_entropy_target=True)


def test_skills_need_goals_of_the_same_number(build: Build) -> None:
    from rein.algorithms.exploration import DIAYNAlgorithm, RandomCategoricalGoalGenerator
    from rein.networks import EncodingNetwork
    from rein.specs import BoundedTensorSpec

    diayn = DIAYNAlgorithm(
        BoundedTensorSpec((), torch.int64, 0, 2), EncodingNetwork(TensorSpec((1,)), fc_layer_params=(4,))
    )
    with pytest.raises(ValueError, match="give a goal_generator"):
        make(OffRecorder, REPLAY, intrinsic_reward_module=diayn)
    goals = RandomCategoricalGoalGenerator(TensorSpec((1,)), 5)
    with pytest.raises(ValueError, match="goals of size 5"):
        make(OffRecorder, REPLAY, intrinsic_reward_module=diayn, goal_generator=goals)


def test_summaries_name_the_parts(build: Build, tmp_path: Path) -> None:
    agent = build("ppo", "much")
    writer = create_summary_writer(tmp_path, tensorboard=False)
    with Run(seed=0, writer=writer), summary.record_if(lambda: True):
        agent.train_iter()
        writer.flush()
    lines = [json.loads(line) for file in tmp_path.glob("**/*.jsonl") for line in file.read_text().splitlines()]
    text = json.dumps(lines)
    for name in ("reward/irm.mean", "reward/extrinsic.mean", "reward/overall.mean", "loss/irm.forward", "loss/rl"):
        assert name in text, name


def test_states_for_evaluation_are_made_of_those_of_training(build: Build) -> None:
    agent = build("ppo_recurrent", "much")
    state = agent.convert_train_state_to_predict_state(zero_state(agent.train_state_spec, 2))
    nest.assert_same_structure(state, agent.predict_state_spec)


def test_stored_states_hold_what_training_reads(build: Build) -> None:
    agent = build("td3", "goals", use_rollout_state=True)
    agent.train_iter()
    stored, _ = agent.replay_buffer.gather_all()  # type: ignore[union-attr]
    assert nest.is_empty(stored.state)  # neither goals nor networks are recurrent in training
    assert isinstance(stored.state, AgentState)
    assert StepType.FIRST in stored.time_step.step_type


def test_offline_data_trains_every_part(build: Build) -> None:
    from rein.data_structures import BatchInfo
    from rein.framework import Batch
    from rein.framework.updating.gradients import train_info

    agent = build("sac_continuous", "icm")
    for _ in range(3):
        agent.train_iter()
    buffer = agent.replay_buffer
    assert buffer is not None
    data, batch_info = buffer.get_batch(4, 3)
    assert isinstance(batch_info, BatchInfo)
    experience = agent.learning.prepare(buffer, data, batch_info)
    offline = Batch(experience, is_offline=True, pre_train=True)
    info = train_info(agent, offline, agent.learning.settings)
    loss = agent.calc_loss_offline(info, pre_train=True)
    assert loss.loss.shape == (3, 4)
    assert set(loss.extra) == {"rl", "irm"}
    sequences = train_info(agent, Batch(experience), agent.learning.settings)
    torch.testing.assert_close(agent.calc_loss(sequences).scalar_loss, loss.scalar_loss)


def test_priorities_of_the_rl_algorithm_reach_the_buffer() -> None:
    from rein.algorithms.off_policy import DqnAlgorithm
    from rein.optimizers import Adam

    rl = partial(DqnAlgorithm, calculate_priority=True)
    agent = make(rl, {**REPLAY, "priority_replay": True}, optimizer=Adam(lr=1e-2), **INTRINSIC)
    for _ in range(3):
        agent.train_iter()
    buffer = agent.replay_buffer
    assert buffer is not None
    weights = buffer.get_batch(32, 2)[1].importance_weights
    assert weights.std() > 0.1


@pytest.mark.parametrize("algorithm", ["ppo", "sac_continuous"])
def test_reward_weights_are_tuned_by_rewards_before_the_transforms(build: Build, algorithm: str) -> None:
    from rein.training.construction import build_algorithm
    from rein.transforms import RewardScaling, UntransformedTimeStep

    template = build(algorithm, "lagrangian")
    config = template._config
    assert config is not None
    env = template.rollout.env
    config.data_transformer_ctor = [UntransformedTimeStep, partial(RewardScaling, scale=1000.0)]
    seen: list[torch.Tensor] = []

    class Watching(type(template._reward_weight_algorithm)):  # type: ignore[misc]
        def _tune(self, mean_reward: torch.Tensor) -> None:
            seen.append(mean_reward)
            super()._tune(mean_reward)

    from rein.optimizers import Adam

    config.algorithm_ctor = partial(
        Agent,
        rl_algorithm_cls=partial(type(template._rl_algorithm)),
        reward_weight_algorithm_cls=partial(Watching, reward_thresholds=[None, 0.5], optimizer=Adam(lr=0.1)),
        optimizer=Adam(lr=1e-3),
    )
    agent = build_algorithm(config, env)
    for _ in range(3):
        agent.train_iter()
    assert len(seen) == 3
    assert all(mean.abs().max() < 10.0 for mean in seen)
