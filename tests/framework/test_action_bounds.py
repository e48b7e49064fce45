"""Continuous actions are clipped on their way to the environment, and nowhere else."""

from typing import Any

import gymnasium as gym
import numpy as np
import torch

from rein.data_structures import AlgStep, TimeStep
from rein.envs import create_environment
from rein.framework import OnPolicyAlgorithm, TrainerConfig
from rein.framework.acting.action_bounds import ActionBounds
from rein.nest import Nest
from rein.specs import BoundedTensorSpec
from rein.training import evaluate


def test_only_continuous_parts_are_clipped() -> None:
    spec = (
        BoundedTensorSpec((), torch.int64, 0, 2),
        BoundedTensorSpec((2,), torch.float32, [-1.0, 0.0], [1.0, float("inf")]),
    )
    action = (torch.tensor([7]), torch.tensor([[-3.0, 50.0]], requires_grad=True))
    number, vector = ActionBounds(spec).clip(action)
    assert number.tolist() == [7]
    assert vector.tolist() == [[-1.0, 50.0]]
    assert not vector.requires_grad


class Strict(gym.Env[Any, Any]):
    """Refuses actions that are out of bounds."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 2, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self.t += 1
        return np.zeros(1, np.float32), float(action[0]), self.t == 3, False, {}


class Far(OnPolicyAlgorithm):
    def predict_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        action = torch.full((inputs.step_type.shape[0], 1), 100.0)
        return AlgStep(output=action, info={"action": action})

    rollout_step = predict_step


def test_the_environment_gets_bounded_actions_and_learning_the_chosen_ones() -> None:
    with create_environment(Strict, 2, backend="sync", seed=0, strict=True) as env:
        algorithm = Far(env.observation_spec, env.action_spec, (), env=env, config=TrainerConfig("", unroll_length=4))
        experience = algorithm.unroll(4)
        assert experience is not None
        assert (experience.rollout_info["action"] == 100).all()
        assert experience.reward[1:4].unique().tolist() == [2.0]
        assert experience.time_step.prev_action[1:4].unique().tolist() == [2.0]
        assert evaluate(algorithm, env, 2).returns.tolist() == [6.0, 6.0]
