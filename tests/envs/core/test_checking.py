import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rein.envs.backend_speed import BackendSpeed, backend_advice, measure_backends
from rein.envs.checking import check_env


class Good(gym.Env):
    """Counts; each test breaks one thing of it."""

    def __init__(self):
        self.observation_space = spaces.Box(-1, 10, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def observe(self):
        return np.array([self.time, self.np_random.random()], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observe(), {}

    def result(self):
        return self.observe(), 1.0, self.time >= 8, False, {}

    def step(self, action):
        self.time += 1
        return self.result()


def broken(name, replacement):
    return type("Broken", (Good,), {name: replacement})


def observing(value):
    return broken("observe", lambda self: value)


def returning(index, value):
    def result(self):
        values = list(Good.result(self))
        values[index] = value
        return tuple(values)

    return broken("result", result)


def with_spaces(**given):
    def make(self):
        Good.__init__(self)
        for name, space in given.items():
            setattr(self, name, space)

    return broken("__init__", make)


class OldReset(Good):
    def reset(self):
        super().reset()
        return self.observe()


class BareReset(Good):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class OwnRandom(Good):
    def observe(self):
        return np.random.default_rng().random(2).astype(np.float32)


class RaisesLater(Good):
    def step(self, action):
        if self.time > 3:
            raise KeyError("position")
        return super().step(action)


class Leaks(Good):
    total = 0

    def observe(self):
        Leaks.total += 1
        return np.array([0, Leaks.total % 7], np.float32)


class NotAnEnv:
    def reset(self):
        return 0

    def step(self, action):
        return 0, 0, False, {}


NAN = np.array([0, np.nan], np.float32)


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (
            observing(np.zeros(3, np.float32)),
            r"observation of reset has shape \(3,\); its space says \(2,\): change one",
        ),
        (observing(np.array(["a", "b"])), "observation of reset has dtype <U1"),
        (observing(None), "observation of reset is None: return an array"),
        (observing(NAN), "observation of reset contains NaN"),
        (observing(np.array([0, 50], np.float32)), "goes from 0 to 50, its space from -1 to 10: widen"),
        (returning(1, None), "reward is None: return a number"),
        (returning(1, "1"), "reward is '1', a str"),
        (returning(1, np.nan), "reward is nan"),
        (returning(1, np.zeros(2)), r"reward has shape \(2,\)"),
        (returning(2, 1), "terminated is 1, a int: return True or False"),
        (returning(3, None), "truncated is None"),
        (returning(4, None), "info is None"),
        (returning(4, {"action_mask": [1]}), r"info\['action_mask'\] has shape \(1,\)"),
        (broken("result", lambda self: Good.result(self)[:4]), "step returned 4 values, as the old gym did"),
        (broken("result", lambda self: 3), "step returned 3, a int"),
        (OldReset, "reset does not take seed"),
        (BareReset, r"reset returned array.*return \(observation, info\)"),
        (OwnRandom, "two runs with the same seed differ"),
        (Leaks, "two runs with the same seed differ"),
        (RaisesLater, r"step raised KeyError: 'position' \(.*test_checking.py:\d+\)"),
        (NotAnEnv, "is no gymnasium.Env: derive it"),
        (lambda: 3, "what was made is a int"),
        (lambda: 1 / 0, "the world cannot be made: ZeroDivisionError"),
        (with_spaces(observation_space=None), "observation_space is None: set it"),
        (with_spaces(observation_space=spaces.Text(3)), "observation_space: the space Text.*convert it with a wrapper"),
        (with_spaces(action_space=spaces.Dict()), "action_space is Dict.*holds nothing"),
        (with_spaces(observation_space=spaces.Dict(a=spaces.Discrete(2))), "observation of reset at 'a' is missing"),
        (with_spaces(observation_space=spaces.Box(0, 255, (2,), np.uint8)), "has dtype float32; its space says uint8"),
    ],
)
def test_each_fault_is_named_in_one_line_with_what_to_do(world, message):
    faults = check_env(world, 40).faults
    assert faults
    assert all("\n" not in fault for fault in faults)
    assert any(re.search(message, fault) for fault in faults), faults


def test_a_world_that_fails_has_no_speed():
    assert check_env(RaisesLater, 40).steps_per_second is None


@pytest.mark.parametrize("world", [Good, Good(), "CartPole-v1", "rein/Reach-v0", "FrozenLake-v1"], ids=str)
def test_good_worlds_have_no_faults(world):
    checked = check_env(world, 60)
    assert checked.faults == []
    assert checked.steps_per_second > 0


def test_advice_is_no_fault():
    checked = check_env(with_spaces(action_space=spaces.Box(-np.inf, np.inf, (2,))), 5)
    texts = [one.what for one in checked.findings if one.kind == "advice"]
    assert checked.faults == []
    assert any("has no bounds" in text for text in texts)
    assert any("no episode ended in 5 steps" in text for text in texts)
    assert any("worker processes" in text for text in texts)


class Masked(Good):
    """Raises at an action that it calls invalid."""

    def __init__(self):
        super().__init__()
        self.action_space = gym.spaces.Discrete(4)

    def action_masks(self):
        return np.array([False, True, False, True])

    def step(self, action):
        if not self.action_masks()[action]:
            raise ValueError(f"{action} is not valid")
        return super().step(action)


def test_worlds_with_masks_are_tried_with_valid_actions():
    assert check_env(Masked).faults == []


def test_backends_are_compared_and_one_is_advised():
    speeds = measure_backends("CartPole-v1", 2)
    assert {"vector", "sync", "thread", "process"} == {one.backend for one in speeds}
    assert all(one.steps_per_second > 0 for one in speeds)

    def advice(**rates):
        return backend_advice([BackendSpeed(name, 1 + (name == "process"), rate) for name, rate in rates.items()])

    assert "backend='process', num_workers=2" in advice(sync=100.0, process=150.0)
    assert "backend='sync'" in advice(sync=100.0, process=105.0)
    assert "backend='vector'" in advice(sync=100.0, vector=500.0)


def test_own_worlds_are_looked_at_before_training(caplog):
    import rein

    class Wrong(Good):
        def reset(self, *, seed=None, options=None):
            observation, info = super().reset(seed=seed)
            return observation + 100, info

    with rein.make("ppo", env=Wrong):
        pass
    assert "widen the space or clip the observation (`rein check-env` looks further)" in caplog.text
