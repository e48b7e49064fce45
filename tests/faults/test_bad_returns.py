"""What a world returns that it must not is named: world, step, field, fix."""

import logging
import math

import gymnasium as gym
import numpy as np
import pytest
import torch

from rein.envs import create_environment
from rein.envs.faults import EnvironmentFaultError, Fault, FaultLog, FaultPolicy

SPACE = gym.spaces.Dict(
    box=gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
    choice=gym.spaces.Discrete(3),
    choices=gym.spaces.MultiDiscrete([2, 4]),
    bits=gym.spaces.MultiBinary(2),
    pixels=gym.spaces.Box(0, 255, (2,), np.uint8),
)


class Faulty(gym.Env):
    """Returns something else in one field at its third step."""

    observation_space = SPACE
    action_space = gym.spaces.Discrete(2)

    def __init__(self, field, value):
        self.field, self.value, self.steps = field, value, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {}

    def step(self, action):
        self.steps += 1
        result = {"reward": 1.0, "terminated": False, "truncated": False, "info": {}}
        observation = self._observation()
        if self.steps == 3:
            if self.field == "all":
                return self.value
            if self.field in result:
                result[self.field] = self.value
            else:
                observation[self.field] = self.value
        return observation, *result.values()

    @staticmethod
    def _observation():
        return {
            "box": np.zeros(2, np.float32),
            "choice": 1,
            "choices": np.array([1, 3]),
            "bits": np.array([0, 1], np.int8),
            "pixels": np.array([0, 255], np.uint8),
        }


BAD = [
    *[("terminated", value) for value in ("False", None, math.nan, [False], np.array([True, False]), 2, {})],
    *[("truncated", value) for value in ("", None, math.nan, np.zeros(1, bool), "yes")],
    *[("reward", value) for value in ("1.5", None, [1.0, 2.0], math.nan, math.inf, 1j, {}, "nan")],
    *[("choice", value) for value in (-1, 99, 3, np.int64(7), 1.5, None, "1", [1])],
    *[("choices", value) for value in (np.array([2, 0]), np.array([0, -1]), np.array([0]), np.array([0.5, 1.0]))],
    *[("bits", value) for value in (np.array([0, 2]), np.array([0, 300]))],
    *[
        ("pixels", value)
        for value in (np.array([0, 256]), np.array([-1, 0]), np.array([0.5, 1]), np.zeros(3, np.uint8))
    ],
    *[("box", np.array([0.0, value], np.float32)) for value in (math.nan, math.inf, -math.inf)],
    *[("all", value) for value in (None, (1, 2), {"a": 1}, [1, 2, 3, 4, 5])],
]


def _take_three_steps(env):
    env.reset()
    for _ in range(3):
        env.step(torch.zeros(2, dtype=torch.int64))


@pytest.mark.parametrize(("field", "value"), BAD)
def test_bad_returns_are_named(field, value):
    env = create_environment(lambda: Faulty(field, value), 2, backend="sync", strict=True, seed=0)
    with env, pytest.raises(EnvironmentFaultError) as error:
        _take_three_steps(env)
    message = str(error.value)
    assert (error.value.fault.kind, error.value.fault.env_id, error.value.fault.step) == ("invalid", 0, 3)
    assert message.startswith("environment 0 invalid at step 3")
    assert ("returned" if field == "all" else field) in message


def test_a_good_world_with_unusual_types_passes():
    class Good(Faulty):
        def step(self, action):
            return self._observation(), np.float32(1.0), np.bool_(False), 0, {}

    with create_environment(lambda: Good("", 0), 2, backend="sync", strict=True, seed=0) as env:
        env.reset()
        for _ in range(5):
            assert env.step(torch.zeros(2, dtype=torch.int64)).reward.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("policy", ["warn", "clip", "raise"])
def test_values_outside_of_a_box(policy, caplog):
    value = np.array([0.5, 3.0], np.float32)
    env = create_environment(lambda: Faulty("box", value), 1, backend="sync", strict=True, seed=0, out_of_bounds=policy)
    with env, caplog.at_level(logging.WARNING, "rein.envs"):
        env.reset()
        for _ in range(2):
            env.step(torch.zeros(1, dtype=torch.int64))
        if policy == "raise":
            with pytest.raises(EnvironmentFaultError, match=r"observation at 'box' holds 3.0, outside of its space"):
                env.step(torch.zeros(1, dtype=torch.int64))
            return
        found = env.step(torch.zeros(1, dtype=torch.int64)).observation["box"][0]
    assert found.tolist() == pytest.approx([0.5, 3.0] if policy == "warn" else [0.5, 1.0], abs=1e-3)
    said = [one.getMessage() for one in caplog.records if "outside of its space" in one.getMessage()]
    assert len(said) == 1
    assert "environment 0, step 3: observation at 'box'" in said[0]


def test_restarts_come_back_with_good_steps():
    """Faults at 1e-3 per step over 1e5 steps are endured; ten within a few steps are not."""
    log = FaultLog(FaultPolicy(), 2, announce=False)
    steps = np.flatnonzero(np.random.default_rng(0).random(100_000) < 1e-3)
    assert len(steps) > 50
    _add_faults(log, 1, steps)
    with pytest.raises(EnvironmentFaultError, match="max_restarts=10"):
        _add_faults(log, 0, range(11))
    often = FaultLog(FaultPolicy(max_restarts=3), 1, announce=False)
    with pytest.raises(EnvironmentFaultError):
        _add_faults(often, 0, range(0, 1000, 50))


def _add_faults(log, row, steps):
    for step in steps:
        log.add(Fault(row, int(step), "raised", "x"))
