"""Random nested spaces survive the way through shared memory and another process."""

import functools

import numpy as np
import torch
from gymnasium import spaces

from rein import nest
from rein.envs import create_environment

NUM_SPECS = 200


def random_leaf(rng):
    shape = tuple(int(size) for size in rng.integers(1, 4, rng.integers(0, 4)))
    kind = rng.integers(6)
    if kind == 0:
        return spaces.Discrete(int(rng.integers(1, 9)), start=int(rng.integers(-3, 4)))
    if kind == 1:
        return spaces.MultiDiscrete(rng.integers(1, 6, int(rng.integers(1, 4))))
    if kind == 2:
        return spaces.MultiBinary(int(rng.integers(1, 5)))
    if kind == 3:
        dtype = (np.uint8, np.int16, np.int32)[rng.integers(3)]
        return spaces.Box(0, 100, shape, dtype)
    low = np.float32(rng.normal())
    return spaces.Box(low, low + np.float32(rng.random() + 0.1), shape, (np.float32, np.float64)[rng.integers(2)])


def random_space(rng, depth=0):
    choice = rng.random()
    if depth < 3 and choice < 0.35:
        return spaces.Dict({f"k{i}": random_space(rng, depth + 1) for i in rng.permutation(int(rng.integers(1, 4)))})
    if depth < 3 and choice < 0.6:
        return spaces.Tuple([random_space(rng, depth + 1) for _ in range(int(rng.integers(1, 4)))])
    return random_leaf(rng)


def test_two_hundred_random_specs_make_the_round_trip(worlds):
    rng = np.random.default_rng(0)
    for number in range(NUM_SPECS):
        space = random_space(rng)
        make = functools.partial(worlds.EchoEnv, space)
        with create_environment(make, 2, backend="process", seed=number, num_workers=1, strict=True) as environment:
            environment.reset()
            for _ in range(2):
                action = nest.map_structure(lambda spec: spec.sample((2,)), environment.action_spec)
                step = environment.step(action)
                nest.assert_same_structure(step.observation, action)
                for seen, sent in zip(nest.flatten(step.observation), nest.flatten(action), strict=True):
                    assert seen.dtype == sent.dtype, space
                    assert torch.equal(seen, sent), space
