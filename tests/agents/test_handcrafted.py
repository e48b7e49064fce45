import math

import pytest
import torch

from rein.agents import HandcraftedAlgorithm, SimpleCarlaAlgorithm
from rein.data_structures import restart
from rein.envs import create_environment
from rein.framework import TrainerConfig
from rein.specs import BoundedTensorSpec, TensorSpec

GOAL = {"goal": TensorSpec((3,)), "speed": TensorSpec(())}
ACTION = BoundedTensorSpec((3,), torch.float32, [0.0, -1.0, 0.0], [20.0, 1.0, 1.0])


def drive(*goals, **arguments):
    algorithm = SimpleCarlaAlgorithm(GOAL, ACTION, **arguments)
    goals = torch.tensor(goals)
    return algorithm.predict_step(restart({"goal": goals, "speed": torch.zeros(len(goals))}, ACTION)).output


def test_it_drives_towards_the_goal_and_slows_down_before_it():
    far, near, there = drive([100.0, 0.0, 3.0], [25.5, 0.0, 0.0], [0.5, 0.0, 0.0]).tolist()
    assert far == [20.0, 0.0, 0.0]
    assert near == pytest.approx([10.0, 0.0, 0.0])  # half way between 1 m and 50 m
    assert there[0] == 0.0


def test_it_turns_to_the_side_where_the_goal_is():
    right, left, behind = drive([0.0, 100.0, 0.0], [50.0, -50.0, 0.0], [-100.0, 1.0, 0.0]).tolist()
    assert right[1] == pytest.approx(0.5)
    assert left[1] == pytest.approx(-0.25)
    assert behind[1] == pytest.approx(1.0, abs=0.01)
    assert right[0] > behind[0] > 0.0


def test_a_car_reaches_its_goal():
    """A point that obeys the actions exactly: steps of 0.1 s, turning by up to 1 rad/s."""
    algorithm = SimpleCarlaAlgorithm(GOAL, ACTION)
    place, heading, goal = torch.zeros(2), 2.5, torch.tensor([80.0, -60.0])
    for _ in range(600):
        forward = torch.tensor([math.cos(heading), math.sin(heading)])
        right = torch.tensor([-math.sin(heading), math.cos(heading)])
        ahead = torch.stack([(goal - place) @ forward, (goal - place) @ right, torch.tensor(0.0)])
        observation = {"goal": ahead.unsqueeze(0), "speed": torch.zeros(1)}
        speed, direction, _ = algorithm.rollout_step(restart(observation, ACTION)).output[0].tolist()
        heading += 0.1 * max(-1.0, min(1.0, direction * math.pi))
        place = place + 0.1 * speed * forward
    assert torch.dist(place, goal) < 3.0


def test_misfits_are_refused():
    with pytest.raises(ValueError, match="needs a field 'goal'"):
        SimpleCarlaAlgorithm({"speed": TensorSpec(())}, ACTION)
    with pytest.raises(ValueError, match="metres"):
        SimpleCarlaAlgorithm({"goal": TensorSpec((2,))}, ACTION)
    with pytest.raises(ValueError, match=r"\[speed, direction, reverse\]"):
        SimpleCarlaAlgorithm(GOAL, TensorSpec((3,)))
    with pytest.raises(ValueError, match="distance_to_stop"):
        SimpleCarlaAlgorithm(GOAL, ACTION, distance_to_stop=60.0)


class AlwaysLeft(HandcraftedAlgorithm):
    def _policy_func(self, observation):
        return torch.zeros(observation.shape[0], dtype=torch.int64)


def test_a_rule_runs_like_any_algorithm():
    env = create_environment("CartPole-v1", 2, backend="sync", seed=0)
    settings = dict(unroll_length=4, mini_batch_length=2, mini_batch_size=4, whole_replay_buffer_training=False)
    config = TrainerConfig("", clear_replay_buffer=False, replay_buffer_length=20, **settings)
    algorithm = AlwaysLeft(env.observation_spec, env.action_spec, env=env, config=config)
    for _ in range(5):
        algorithm.train_iter()
    assert algorithm.env_steps > 10
    assert algorithm.replay_buffer.total_size == 40
    with pytest.raises(NotImplementedError, match="_policy_func"):
        HandcraftedAlgorithm(env.observation_spec, env.action_spec).predict_step(env.current_time_step())
