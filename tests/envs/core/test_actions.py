"""Actions of every kind reach the worlds as they were given, and wrong ones are named."""

import functools

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rein import nest
from rein.envs import create_environment
from rein.envs.leaves import leaves_of
from rein.specs import spec_from_space

SPACES = {
    "discrete": spaces.Discrete(5, start=2),
    "multi_discrete": spaces.MultiDiscrete([3, 4]),
    "multi_binary": spaces.MultiBinary(3),
    "continuous": spaces.Box(-1, 1, (2,), np.float32),
    "double": spaces.Box(-1, 1, (2,), np.float64),
    "pair": spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)]),
    "dict": spaces.Dict({"turn": spaces.Discrete(3), "arm": spaces.Dict({"force": spaces.Box(0, 1, (), np.float32)})}),
    "one_key": spaces.Dict({"only": spaces.Box(-1, 1, (1,), np.float32)}),
}


@pytest.mark.parametrize("backend", ["sync", "process", "thread"])
@pytest.mark.parametrize("kind", list(SPACES))
def test_an_action_comes_back_as_the_observation_and_as_the_previous_action(worlds, kind, backend):
    space = SPACES[kind]
    with create_environment(functools.partial(worlds.EchoEnv, space), 3, backend=backend, seed=0) as environment:
        environment.reset()
        action = nest.map_structure(lambda spec: spec.sample((3,)), environment.action_spec)
        step = environment.step(action)
        assert environment.fault_counts.sum() == 0
        nest.assert_same_structure(step.observation, action)
        for seen, before, given in zip(*map(nest.flatten, (step.observation, step.prev_action, action)), strict=True):
            assert torch.equal(seen, given)
            assert torch.equal(before, given)
            assert seen.dtype == given.dtype


@pytest.mark.parametrize("kind", list(SPACES))
def test_leaves_of_a_space_are_those_of_its_specs(kind):
    specs = nest.flatten_with_paths(spec_from_space(SPACES[kind]))
    leaves = leaves_of(SPACES[kind])
    assert [(leaf.path, leaf.shape) for leaf in leaves] == [(path, tuple(spec.shape)) for path, spec in specs]
    assert [torch.from_numpy(np.empty(0, leaf.dtype)).dtype for leaf in leaves] == [spec.dtype for _, spec in specs]


def test_wrong_actions_are_refused_with_their_path(worlds):
    with create_environment("CartPole-v1", 3, backend="sync") as environment:
        environment.reset()
        with pytest.raises(ValueError, match=r"torch.float32.*torch.int64"):
            environment.step(torch.zeros(3))
        with pytest.raises(ValueError, match="batch size 2"):
            environment.step(torch.zeros(2, dtype=torch.int64))
        with pytest.raises(ValueError, match="action"):
            environment.step(torch.zeros(3, 1, dtype=torch.int64))
        environment.step(torch.zeros(3, dtype=torch.int64))
    with create_environment(functools.partial(worlds.EchoEnv, SPACES["dict"]), 2, backend="sync") as environment:
        environment.reset()
        with pytest.raises(ValueError, match=r"arm\.force"):
            environment.step({"turn": torch.zeros(2, dtype=torch.int64), "arm": {"force": torch.zeros(2, 1)}})
        with pytest.raises(ValueError, match="action"):
            environment.step({"turn": torch.zeros(2, dtype=torch.int64)})


def test_actions_may_carry_gradients_or_be_numpy():
    with create_environment("Pendulum-v1", 2, backend="sync", seed=0) as environment:
        environment.reset()
        step = environment.step(torch.full((2, 1), 0.5, requires_grad=True))
        assert not step.prev_action.requires_grad
        assert step.prev_action.tolist() == [[0.5], [0.5]]
        assert environment.step(np.full((2, 1), 0.25, np.float32)).prev_action.tolist() == [[0.25], [0.25]]


def test_a_world_may_keep_its_actions(worlds):
    class Keeping(worlds.CountingEnv):
        def __init__(self):
            super().__init__(length=100)
            self.action_space = spaces.Box(-1, 1, (1,), np.float32)
            self.kept = []

        def step(self, action):
            self.kept.append(action)
            return super().step(float(action[0]))

    with create_environment(Keeping, 1, backend="sync") as environment:
        environment.reset()
        for number in range(6):
            environment.step(torch.tensor([[number / 10]]))
        kept = [round(float(action[0]), 1) for action in environment.envs[0].kept]
    assert kept == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]


def test_spaces_without_a_fixed_shape_are_refused(worlds):
    with pytest.raises(TypeError, match="no fixed shape"):
        create_environment(functools.partial(worlds.EchoEnv, spaces.Text(5)), 1, backend="sync")
