"""Worlds that are wrong in one way each, drawn by a seed: shapes, types, keys, None, the old API, NaN, bounds, spaces."""

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

VECTOR = spaces.Box(-1, 1, (3,), np.float32)
OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "vector": VECTOR,
    "image": spaces.Box(0, 255, (3, 8, 8), np.uint8),
    "number": spaces.Discrete(5),
    "several": spaces.MultiDiscrete([3, 4]),
    "dict": spaces.Dict(position=VECTOR, goal=spaces.Box(0, 1, (2,), np.float32), lamp=spaces.Discrete(2)),
    "nested": spaces.Dict(
        arm=spaces.Dict(joints=VECTOR), eyes=spaces.Tuple((spaces.Box(0, 9, (2, 2), np.int64), VECTOR))
    ),
}
ACTIONS = (spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32), spaces.MultiBinary(2))


class World(gym.Env[Any, Any]):
    """Random observations, episodes of nine steps; `spoil` changes what is returned."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.time = self.total = 0

    def observe(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        self.total += 1
        return self.observe(), 1.0, self.time >= 9, False, {}


class Mutant(NamedTuple):
    """A world that is wrong."""

    make: Callable[[], gym.Env[Any, Any]]
    what: str
    """The mutation, in words."""
    path: str
    """What a message about it must name."""


def mutant(seed: int) -> Mutant:
    """The world of a seed."""
    rng = np.random.default_rng(seed)
    kind = list(OBSERVATIONS)[rng.integers(len(OBSERVATIONS))]
    space, action = OBSERVATIONS[kind], ACTIONS[rng.integers(len(ACTIONS))]
    makers = (_in_observation, _in_observation, _in_result, _in_reset, _in_spaces)
    return makers[rng.integers(len(makers))](rng, space, action)


# Observations -------------------------------------------------------------------------------------------------------


def _in_observation(rng: np.random.Generator, space: spaces.Space[Any], action: spaces.Space[Any]) -> Mutant:
    keys, leaf = _random_leaf(rng, space)
    changes = dict(_leaf_changes(leaf))
    if isinstance(keys[-1] if keys else None, str):
        changes["key missing"] = _MISSING
    name = list(changes)[rng.integers(len(changes))]
    change, first = changes[name], int(rng.integers(0, 25))

    class Spoiled(World):
        def observe(self) -> Any:
            observation = super().observe()
            return observation if self.total < first else _changed(observation, keys, change)

    path = str(keys[-1]) if keys else "observation"
    return Mutant(lambda: Spoiled(space, action), f"observation {keys}: {name} from step {first}", path)


class _Missing:
    pass


_MISSING = _Missing()


def _leaf_changes(leaf: spaces.Space[Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "None": lambda _: None,
        "text": lambda _: "north",
        "another shape": lambda x: np.zeros((*np.shape(x), 2), np.asarray(x).dtype),
        "an empty list": lambda _: [],
        "a dict": lambda x: {"value": x},
        "complex": lambda x: np.asarray(x) + 1j,
    }
    if isinstance(leaf, spaces.Box) and leaf.dtype.kind == "f":
        changes["NaN"] = lambda x: np.full_like(x, np.nan)
        changes["one NaN"] = lambda x: np.where(np.arange(x.size).reshape(x.shape) == 0, np.nan, x).astype(x.dtype)
        changes["too large"] = lambda x: x + 50
        changes["infinite"] = lambda x: np.full_like(x, np.inf)
    else:
        changes["negative"] = lambda x: np.asarray(x, np.int64) - 1000
        changes["too large"] = lambda x: np.asarray(x, np.int64) + 1000
        changes["fractions"] = lambda x: np.asarray(x, np.float32) + 0.5
    return changes


def _random_leaf(rng: np.random.Generator, space: spaces.Space[Any]) -> tuple[list[Any], spaces.Space[Any]]:
    keys: list[Any] = []
    while isinstance(space, spaces.Dict | spaces.Tuple):
        names = list(space.spaces) if isinstance(space, spaces.Dict) else list(range(len(space.spaces)))
        keys.append(names[rng.integers(len(names))])
        space = space.spaces[keys[-1]]
    return keys, space


def _changed(value: Any, keys: list[Any], change: Any) -> Any:
    if not keys:
        return change(value)
    first, rest = keys[0], keys[1:]
    if isinstance(value, dict):
        if not rest and change is _MISSING:
            return {key: part for key, part in value.items() if key != first}
        return {key: _changed(part, rest, change) if key == first else part for key, part in value.items()}
    return tuple(_changed(part, rest, change) if i == first else part for i, part in enumerate(value))


# What step and reset return -----------------------------------------------------------------------------------------

_RESULTS: dict[str, tuple[str, Callable[[tuple[Any, ...]], Any]]] = {
    "old API": ("step", lambda r: (r[0], r[1], r[2], r[4])),
    "three values": ("step", lambda r: r[:3]),
    "six values": ("step", lambda r: (*r, None)),
    "only the observation": ("step", lambda r: r[0]),
    "nothing": ("step", lambda r: None),
    "reward None": ("reward", lambda r: (r[0], None, *r[2:])),
    "reward as text": ("reward", lambda r: (r[0], "1", *r[2:])),
    "reward NaN": ("reward", lambda r: (r[0], float("nan"), *r[2:])),
    "reward infinite": ("reward", lambda r: (r[0], -float("inf"), *r[2:])),
    "two rewards": ("reward", lambda r: (r[0], np.ones(2), *r[2:])),
    "reward in a dict": ("reward", lambda r: (r[0], {"agent": 1.0}, *r[2:])),
    "terminated None": ("terminated", lambda r: (r[0], r[1], None, *r[3:])),
    "terminated as text": ("terminated", lambda r: (r[0], r[1], "no", *r[3:])),
    "truncated 0.5": ("truncated", lambda r: (*r[:3], 0.5, r[4])),
    "truncated in a dict": ("truncated", lambda r: (*r[:3], {"__all__": False}, r[4])),
    "info None": ("info", lambda r: (*r[:4], None)),
    "info a list": ("info", lambda r: (*r[:4], [])),
}


def _in_result(rng: np.random.Generator, space: spaces.Space[Any], action: spaces.Space[Any]) -> Mutant:
    name = list(_RESULTS)[rng.integers(len(_RESULTS))]
    path, change = _RESULTS[name]
    first = int(rng.integers(1, 25))

    class Spoiled(World):
        def step(self, action: Any) -> Any:
            result = super().step(action)
            return result if self.total < first else change(result)

    return Mutant(lambda: Spoiled(space, action), f"step: {name} from step {first}", path)


_RESETS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "old API": lambda r: r[0],
    "three values": lambda r: (*r, 0.0),
    "info None": lambda r: (r[0], None),
    "nothing": lambda r: None,
    "info first": lambda r: (r[1], r[0]),
}


def _in_reset(rng: np.random.Generator, space: spaces.Space[Any], action: spaces.Space[Any]) -> Mutant:
    names = [*_RESETS, "no seed", "raises", "raises after the end"]
    name = names[rng.integers(len(names))]

    class Spoiled(World):
        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            if name == "raises" or (name == "raises after the end" and self.total):
                raise RuntimeError("the simulator is gone")
            result = super().reset(seed=seed)
            return _RESETS[name](result) if name in _RESETS else result

    class WithoutSeed(World):
        def reset(self) -> Any:  # type: ignore[override]
            return super().reset()

    made = WithoutSeed if name == "no seed" else Spoiled
    path = "observation" if name == "info first" else "reset"
    return Mutant(lambda: made(space, action), f"reset: {name}", path)


# Spaces -------------------------------------------------------------------------------------------------------------


def _in_spaces(rng: np.random.Generator, space: spaces.Space[Any], action: spaces.Space[Any]) -> Mutant:
    wrong: dict[str, Callable[[], Any]] = {
        "None": lambda: None,
        "a shape": lambda: (3,),
        "a class": lambda: spaces.Box,
        "an empty Dict": lambda: spaces.Dict({}),
        "no number": lambda: spaces.Box(0, 1, (0,), np.float32),
        "text": lambda: spaces.Text(5),
        "bounds exchanged": lambda: _with_bounds(1.0, -1.0),
        "bounds of NaN": lambda: _with_bounds(np.nan, np.nan),
    }
    name = list(wrong)[rng.integers(len(wrong))]
    which = ("observation_space", "action_space")[rng.integers(2)]

    def make() -> World:
        world = World(space, action)
        setattr(world, which, wrong[name]())
        return world

    return Mutant(make, f"{which}: {name}", which)


def _with_bounds(low: float, high: float) -> spaces.Box:
    box = spaces.Box(-1, 1, (3,), np.float32)
    box.low, box.high = np.full(3, low, np.float32), np.full(3, high, np.float32)
    return box
