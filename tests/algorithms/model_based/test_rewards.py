"""Rewards in imagination: the known ones against their worlds, and the learnt one."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rein.algorithms.model_based import FixedRewardFunction, LearnedRewardFunction, cartpole_reward, pendulum_reward
from rein.data_structures import StepType, TimeStep
from rein.envs.toy import register
from rein.optimizers import Adam
from rein.specs import BoundedTensorSpec, TensorSpec


def test_the_pendulum_reward_by_hand() -> None:
    upright, level = [1.0, 0.0, 0.0], [0.0, 1.0, 2.0]
    reward = pendulum_reward(torch.tensor([upright, level]), torch.tensor([[0.0], [-2.0]]))
    expected = -((np.pi / 2) ** 2 + 0.1 * 4 + 0.001 * 4)
    torch.testing.assert_close(reward, torch.tensor([0.0, expected], dtype=torch.float32))


def test_the_pendulum_reward_is_that_of_the_world_at_the_same_state() -> None:
    env: Any = gym.make("Pendulum-v1").unwrapped
    for seed in range(5):
        observation, _ = env.reset(seed=seed)
        action = np.array([0.3 * seed - 0.6], np.float32)
        known = pendulum_reward(torch.tensor(observation), torch.tensor(action))
        _, reward, *_ = env.step(action)
        assert known.item() == pytest.approx(float(reward), rel=1e-5)


def test_a_diverged_pendulum_costs_much_and_is_a_number() -> None:
    observation = torch.tensor([[torch.nan, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert pendulum_reward(observation, torch.zeros(2, 1)).tolist() == [-1e6, 0.0]


def test_the_cartpole_reward_is_that_of_the_world_where_the_action_led() -> None:
    register()
    env = gym.make("rein/CartPoleContinuous-v0").unwrapped
    for seed in range(3):
        env.reset(seed=seed)
        terminated, steps = False, 0
        while not terminated:
            action = np.array([1.0 if seed else 0.1], np.float32)
            observation, reward, terminated, *_ = env.step(action)
            known = cartpole_reward(torch.tensor(observation), torch.tensor(action))
            assert known.item() == pytest.approx(float(reward), rel=1e-5, abs=1e-6)
            steps += 1
        assert reward == 0.0
        assert steps > 5


@pytest.mark.parametrize(("function", "size"), [(pendulum_reward, 3), (cartpole_reward, 4)])
def test_known_rewards_reduce_the_last_dimension_only(function: Any, size: int) -> None:
    observation, action = torch.randn(4, 5, size), torch.randn(4, 5, 1)
    reward = function(observation, action)
    assert reward.shape == (4, 5)
    torch.testing.assert_close(reward[2, 3], function(observation[2, 3], action[2, 3]))


def test_a_fixed_reward_learns_nothing() -> None:
    module = FixedRewardFunction(pendulum_reward)
    reward, state = module.compute_reward(torch.tensor([[1.0, 0.0, 1.0]]), torch.zeros(1, 1), "kept")
    assert reward.item() == pytest.approx(-0.1)
    assert state == "kept"
    step = module.train_step(TimeStep())
    assert step == ((), (), ())
    with pytest.raises(TypeError, match="give a function"):
        FixedRewardFunction(3.0)  # type: ignore[arg-type]


def test_a_learnt_reward_learns_where_actions_led() -> None:
    torch.manual_seed(0)
    action_spec = BoundedTensorSpec((1,), torch.float32, -1, 1)
    module = LearnedRewardFunction(TensorSpec((2,)), action_spec, hidden_size=32, optimizer=Adam(lr=1e-2))
    for _ in range(300):
        observation, action = torch.randn(64, 2), 2 * torch.rand(64, 1) - 1
        truth = observation[:, 0] - action[:, 0].square()
        step = TimeStep(torch.full((64,), StepType.MID), truth, observation=observation, prev_action=action)
        module.update_with_gradient(module.calc_loss(module.train_step(step).info))
    observation, action = torch.randn(5, 3, 2), 2 * torch.rand(5, 3, 1) - 1
    reward, _ = module.compute_reward(observation, action, ())
    torch.testing.assert_close(reward, observation[..., 0] - action[..., 0].square(), atol=0.2, rtol=0)


def test_the_loss_of_a_learnt_reward_leaves_first_steps_out() -> None:
    module = LearnedRewardFunction(TensorSpec((1,)), BoundedTensorSpec((1,), torch.float32, -1, 1), hidden_size=4)
    step = TimeStep(torch.tensor([0, 1, 2]), torch.tensor([9.0, 9.0, 9.0]), None, torch.zeros(3, 1), torch.zeros(3, 1))
    guess, _ = module.compute_reward(torch.zeros(1, 1), torch.zeros(1, 1), ())
    expected = 0.5 * (guess.item() - 9.0) ** 2
    info = module.train_step(step).info
    assert info.loss.tolist() == pytest.approx([0.0, expected, expected])
    assert module.calc_loss(info).scalar_loss.item() == pytest.approx(2 * expected / 3)
