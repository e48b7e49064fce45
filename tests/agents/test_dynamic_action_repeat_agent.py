"""The agent that chooses how long to repeat: rewards of decisions by hand, what is stored, and training."""

from functools import partial
from typing import Any

import pytest
import torch

from rein import nest
from rein.agents import DynamicActionRepeatAgent
from rein.agents.dynamic_action_repeat_agent import ActionRepeatInfo
from rein.algorithms.off_policy import SacAlgorithm
from rein.data_structures import AlgStep, BatchInfo, StepType, TimeStep, make_experience
from rein.envs import create_environment
from rein.framework import Algorithm, OffPolicyAlgorithm, TrainerConfig
from rein.networks import ActorDistributionNetwork, NestConcat, NormalProjectionNetwork, QNetwork
from rein.networks.state import reset_state, zero_state
from rein.optimizers import Adam
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.transforms import RewardNormalizer

FIRST, MID, LAST = StepType.FIRST, StepType.MID, StepType.LAST
OBSERVATION = TensorSpec((1,))
ACTION = BoundedTensorSpec((1,), torch.float32, -10.0, 10.0)


def settings(**changes: Any) -> TrainerConfig:
    values: dict[str, Any] = {"mini_batch_length": 2, "mini_batch_size": 8, "whole_replay_buffer_training": False}
    return TrainerConfig(root_dir="", **{**values, **changes})


class Script(OffPolicyAlgorithm):
    """Decides by a script of (k - 1): the i-th decision takes the action i."""

    def __init__(self, script: list[int], action_spec: Any, config: Any = None, **kwargs: Any) -> None:
        super().__init__(action_spec=action_spec, train_state_spec=(), **kwargs)
        self.script, self.calls, self.seen = script, 0, []

    def _decide(self, inputs: TimeStep) -> AlgStep:
        k = self.script[min(self.calls, len(self.script) - 1)]
        self.calls += 1
        self.seen.append(inputs)
        size = inputs.step_type.shape[0]
        action = torch.full((size, 1), float(self.calls))
        return AlgStep(output=(torch.full((size,), k), action), info={"call": torch.full((size,), self.calls)})

    def predict_step(self, inputs: TimeStep, state: Any) -> AlgStep:
        return self._decide(inputs)

    def rollout_step(self, inputs: TimeStep, state: Any) -> AlgStep:
        return self._decide(inputs)


def scripted(script: list[int], **changes: Any) -> DynamicActionRepeatAgent:
    arguments = {"rl_algorithm_cls": partial(Script, script), "gamma": 0.5, "config": settings()}
    agent = DynamicActionRepeatAgent(OBSERVATION, ACTION, **{**arguments, **changes})
    agent.set_replay_buffer(1, 100)
    return agent


def play(
    agent: DynamicActionRepeatAgent, step_types: list[int], rewards: list[float], terminal: bool = True
) -> list[Any]:
    """Steps of one environment through the rollout; returns the steps of the agent."""
    initial = zero_state(agent.rollout_state_spec, 1)
    state, steps = initial, []
    for t, (step_type, reward) in enumerate(zip(step_types, rewards, strict=True)):
        time_step = TimeStep(
            step_type=torch.tensor([step_type], dtype=torch.int32),
            reward=torch.tensor([reward]),
            discount=torch.tensor([0.0 if step_type == LAST and terminal else 1.0]),
            observation=torch.tensor([[float(t)]]),
            prev_action=torch.zeros(1, 1),
            env_id=torch.zeros(1, dtype=torch.int64),
        )
        state = reset_state(state, time_step.is_first(), initial)
        step = agent.rollout_step(time_step, state)
        agent.observe_for_replay(make_experience(time_step, step, state))
        state = step.state
        steps.append(step)
    return steps


def stored(agent: DynamicActionRepeatAgent) -> Any:
    data, _ = agent.replay_buffer.gather_all()
    return nest.map_structure(lambda x: x[0], data)


def test_an_action_is_taken_as_often_as_decided() -> None:
    # The algorithm is asked at every step, but its answer counts at decisions only: calls 1, 4, 5.
    agent = scripted([2, 9, 9, 0, 1])
    steps = play(agent, [FIRST, MID, MID, MID, MID, MID], [0.0] * 6)
    assert [step.output.item() for step in steps] == [1, 1, 1, 4, 5, 5]
    assert [bool(step.info.is_decision) for step in steps] == [True, False, False, True, True, False]


def test_rewards_and_discounts_of_a_decision_add_up() -> None:
    agent = scripted([2, 9, 9, 0, 1, 9, 0])
    play(agent, [FIRST, MID, MID, MID, MID, MID, MID], [7.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    data = stored(agent)
    assert data.observation[:, 0].tolist() == [0, 3, 4, 6]
    # FIRST has no reward; three steps; one step; two steps.
    assert data.reward.tolist() == [0.0, 1 + 0.5 * 2 + 0.25 * 4, 8.0, 16 + 0.5 * 32]
    assert data.discount.tolist() == [1.0, 0.25, 1.0, 0.5]
    assert data.prev_action[0].tolist() == [0, 2, 0, 1]
    assert data.prev_action[1][:, 0].tolist() == [0, 1, 4, 5]
    assert data.rollout_info.rl["call"].tolist() == [1, 4, 5, 7]


@pytest.mark.parametrize("terminal", [True, False])
def test_the_end_of_an_episode_interrupts_a_repetition(terminal: bool) -> None:
    agent = scripted([4])
    play(agent, [FIRST, MID, LAST, FIRST, MID], [0.0, 1.0, 2.0, 0.0, 5.0], terminal)
    data = stored(agent)
    assert data.step_type.tolist() == [FIRST, LAST, FIRST]
    assert data.reward.tolist() == [0.0, 2.0, 0.0]
    assert data.discount.tolist() == [1.0, 0.0 if terminal else 0.5, 1.0]


def test_environments_decide_by_themselves() -> None:
    agent = scripted([0])
    agent.set_replay_buffer(2, 100)
    state = zero_state(agent.rollout_state_spec, 2)._replace(steps=torch.tensor([0, 3]), k=torch.tensor([0, 3]))
    time_step = TimeStep(
        step_type=torch.full((2,), MID, dtype=torch.int32),
        reward=torch.ones(2),
        discount=torch.ones(2),
        observation=torch.zeros(2, 1),
        prev_action=torch.zeros(2, 1),
        env_id=torch.arange(2),
    )
    step = agent.rollout_step(time_step, state)
    agent.observe_for_replay(make_experience(time_step, step, state))
    assert step.info.is_decision.tolist() == [True, False]
    assert step.output[:, 0].tolist() == [1.0, 0.0]
    assert agent.replay_buffer.current_size.tolist() == [1, 0]


def test_evaluation_repeats_too() -> None:
    agent = scripted([1, 9, 0])
    initial = zero_state(agent.predict_state_spec, 1)
    state, actions = initial, []
    for step_type in (FIRST, MID, MID, MID):
        time_step = TimeStep(torch.tensor([step_type], dtype=torch.int32), observation=torch.zeros(1, 1))
        step = agent.predict_step(time_step, state)
        state = step.state
        actions.append(step.output.item())
    assert actions == [1, 1, 3, 4]
    nest.assert_same_structure(state, agent.predict_state_spec)


def test_the_sample_of_rewards_is_uniform() -> None:
    torch.manual_seed(0)
    agent = scripted([2])
    size = 3000
    state = zero_state(agent.rollout_state_spec, size)
    for step_type, reward in ((FIRST, 0.0), (MID, 1.0), (MID, 2.0), (MID, 3.0)):
        time_step = TimeStep(
            step_type=torch.full((size,), step_type, dtype=torch.int32),
            reward=torch.full((size,), reward),
            discount=torch.ones(size),
            observation=torch.zeros(size, 1),
            prev_action=torch.zeros(size, 1),
        )
        step = agent.rollout_step(time_step, state)
        state = step.state
    shares = [(step.info.sample_rewards == reward).float().mean().item() for reward in (1.0, 2.0, 3.0)]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.04)


def test_rewards_are_normalized_by_single_rewards() -> None:
    agent = scripted([0], reward_normalizer_ctor=partial(RewardNormalizer, clip_value=1.5))
    agent._rl.preprocess_experience = lambda inputs, info, batch_info: (inputs, info)
    sample = torch.tensor([[1.0, 3.0], [1.0, 3.0]])
    inputs = TimeStep(reward=torch.tensor([[2.0, 100.0], [1.0, 3.0]]))
    processed, _ = agent.preprocess_experience(inputs, ActionRepeatInfo(sample_rewards=sample), BatchInfo())
    assert torch.allclose(processed.reward, torch.tensor([[0.0, 1.5], [-1.0, 1.0]]), atol=1e-3)


class Doubling(Algorithm):
    """A representation learner: twice the observation, by a weight."""

    def __init__(self, observation_spec: Any, action_spec: Any, debug_summaries: bool = False) -> None:
        super().__init__(name="Doubling")
        self.output_spec = observation_spec
        self.weight = torch.nn.Parameter(torch.tensor(2.0))

    def predict_step(self, inputs: TimeStep, state: Any) -> AlgStep:
        return AlgStep(output=self.weight * inputs.observation)

    rollout_step = predict_step

    def train_step(self, inputs: TimeStep, state: Any, rollout_info: Any = ()) -> AlgStep:
        return self.predict_step(inputs, state)


def test_the_algorithm_sees_the_representation() -> None:
    agent = scripted([0], representation_learner_cls=Doubling)
    play(agent, [FIRST, MID], [0.0, 0.0])
    assert [seen.observation.item() for seen in agent._rl.seen] == [0.0, 2.0]
    assert stored(agent).observation[:, 0].tolist() == [0.0, 1.0]  # the original is stored


PROJECTION = partial(NormalProjectionNetwork, state_dependent_std=True, scale_distribution=True)


def sac(**kwargs: Any) -> SacAlgorithm:
    return SacAlgorithm(
        actor_network_cls=partial(ActorDistributionNetwork, continuous_projection_net_ctor=PROJECTION),
        q_network_cls=partial(QNetwork, fc_layer_params=(8,), preprocessing_combiner=NestConcat()),
        actor_optimizer=Adam(lr=1e-3),
        critic_optimizer=Adam(lr=1e-3),
        alpha_optimizer=Adam(lr=1e-3),
        **kwargs,
    )


@pytest.mark.parametrize("representation", [None, Doubling])
def test_it_trains_the_parts_below(representation: Any) -> None:
    torch.manual_seed(0)
    env = create_environment("Pendulum-v1", 2, "sync", seed=0)
    agent = DynamicActionRepeatAgent(
        env.observation_spec,
        env.action_spec,
        env.reward_spec,
        env=env,
        config=settings(unroll_length=8, initial_collect_steps=20, num_updates_per_train_iter=1),
        rl_algorithm_cls=sac,
        representation_learner_cls=representation,
        optimizer=Adam(lr=1e-3),
    )
    before = {name: p.detach().clone() for name, p in agent.named_parameters()}
    for _ in range(8):
        agent.train_iter()
    changed = {
        ".".join(name.split(".")[:2]) for name, p in agent.named_parameters() if not torch.equal(p, before[name])
    }
    expected = {
        f"_rl.{part}" for part in ("_actor_network", "_critic_networks", "_target_critic_networks", "_log_alpha")
    }
    assert changed == expected | ({"_representation.weight"} if representation else set())
    assert agent.replay_buffer.total_size < 8 * 8 * 2
    assert agent.env_steps > 100


def test_the_replay_buffer_is_restored_as_it_was() -> None:
    def make() -> DynamicActionRepeatAgent:
        torch.manual_seed(0)
        env = create_environment("Pendulum-v1", 2, "sync", seed=0)
        specs = env.observation_spec, env.action_spec, env.reward_spec
        return DynamicActionRepeatAgent(*specs, env=env, config=settings(unroll_length=8), rl_algorithm_cls=sac)

    agent = make()
    agent.train_iter()
    other = make()
    other.restore_replay_buffer(agent.replay_buffer.state_dict())
    first, second = (a.replay_buffer.gather_all(ignore_earliest_frames=False)[0] for a in (agent, other))
    assert all(torch.equal(a, b) for a, b in zip(nest.flatten(first), nest.flatten(second), strict=True))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"K": 0}, "K is 0"),
        ({"gamma": 1.5}, "gamma is 1"),
        ({"action_spec": BoundedTensorSpec((), torch.int64, 0, 3)}, "continuous"),
        ({"config": TrainerConfig(root_dir="")}, "whole_replay_buffer_training=False"),
    ],
)
def test_settings_that_make_no_sense(changes: dict[str, Any], message: str) -> None:
    arguments = {"observation_spec": OBSERVATION, "action_spec": ACTION, "rl_algorithm_cls": partial(Script, [0])}
    with pytest.raises(ValueError, match=message):
        DynamicActionRepeatAgent(**{**arguments, **changes})


def test_k_is_the_most_steps() -> None:
    seen = []

    def spy(**kwargs: Any) -> Script:
        seen.append(kwargs["action_spec"])
        return Script([0], **kwargs)

    DynamicActionRepeatAgent(OBSERVATION, ACTION, K=7, rl_algorithm_cls=spy)
    assert seen[0][0].num_values == 7
    assert seen[0][1] is ACTION
