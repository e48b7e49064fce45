"""Wrappers over several tasks, or one whose difficulty changes."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rein.config import configurable

EnvMaker = Callable[[], gym.Env[Any, Any]]


@configurable
class MultiTask(gym.Env[Any, Any]):
    """One world out of several tasks with the same spaces, with a new task at each reset.

    The observation is `{"observation": ..., "task": int}`; `num_tasks` and `task_names` describe the tasks.
    `reset(options={"task": index or name})` chooses a task.

    Args:
        makers: a function per task, by name; each returns a `gymnasium.Env`.
        probabilities: of each task; default uniform.
        render_mode: must agree with what the makers give; only the current task is rendered.
    """

    def __init__(
        self,
        makers: Mapping[str, EnvMaker],
        probabilities: Sequence[float] | None = None,
        render_mode: str | None = None,
    ) -> None:
        if not makers:
            raise ValueError("MultiTask needs at least one task.")
        self.task_names = tuple(makers)
        self.num_tasks = len(makers)
        self._envs = [maker() for maker in makers.values()]
        first = self._envs[0]
        for name, env in zip(self.task_names, self._envs, strict=True):
            for attribute in ("observation_space", "action_space"):
                expected, found = getattr(first, attribute), getattr(env, attribute)
                if expected != found:
                    raise ValueError(
                        f"Task {name!r} has {attribute} {found}, but {self.task_names[0]!r} has {expected}."
                    )
        self._probabilities = _normalized(probabilities, self.num_tasks)
        self.observation_space = spaces.Dict(
            {"observation": first.observation_space, "task": spaces.Discrete(self.num_tasks)}
        )
        self.action_space = first.action_space
        for attribute in ("reward_space", "env_info_space"):
            if first.has_wrapper_attr(attribute):
                setattr(self, attribute, first.get_wrapper_attr(attribute))
        self.metadata = first.metadata
        self.render_mode = render_mode if render_mode is not None else first.render_mode
        self._task = 0
        # A task is seeded when it is first chosen after a seeded reset.
        self._seeds: list[int | None] = [None] * self.num_tasks
        self._layers = _layers_of(self._envs)

    @property
    def task(self) -> int:
        """Index of the current task."""
        return self._task

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Chooses a task and resets its world."""
        super().reset(seed=seed)
        chosen = (options or {}).get("task")
        if chosen is None:
            self._task = int(self.np_random.choice(self.num_tasks, p=self._probabilities))
        elif chosen in self.task_names:
            self._task = self.task_names.index(chosen)
        elif isinstance(chosen, int | np.integer) and 0 <= chosen < self.num_tasks:
            self._task = int(chosen)
        else:
            raise ValueError(f"There is no task {chosen!r}; tasks are {self.task_names}.")
        if seed is not None:
            self._seeds = self.np_random.integers(2**31, size=self.num_tasks).tolist()
        task_seed, self._seeds[self._task] = self._seeds[self._task], None
        observation, info = self._envs[self._task].reset(seed=task_seed, options=options)
        return self._with_task(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps the world of the current task."""
        observation, *rest = self._envs[self._task].step(action)
        return (self._with_task(observation), *rest)  # type: ignore[return-value]

    def render(self) -> Any:
        """Renders the current task."""
        return self._envs[self._task].render()

    def close(self) -> None:
        """Closes all tasks."""
        for env in self._envs:
            env.close()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._layers = _layers_of(self._envs)

    def _with_task(self, observation: Any) -> dict[str, Any]:
        return {"observation": observation, "task": np.int64(self._task)}


class _Layer:
    """Shares the attributes of one layer of a task's world.

    Saving a world saves the attributes of its objects, but takes other worlds among them for granted; through this, those of
    the tasks are saved and restored too.
    """

    def __init__(self, layer: gym.Env[Any, Any]) -> None:
        self.__dict__ = layer.__dict__


def _layers_of(envs: Sequence[gym.Env[Any, Any]]) -> list[list[_Layer]]:
    found = []
    for env in envs:
        layers = [env]
        while isinstance(layers[-1], gym.Wrapper):
            layers.append(layers[-1].env)
        found.append([_Layer(layer) for layer in layers])
    return found


class CurriculumStatus(NamedTuple):
    """What a curriculum may base its choice on."""

    episodes: int
    """Episodes finished so far in this world."""
    steps: int
    """Steps taken so far in this world."""
    returns: tuple[float, ...]
    """Returns of the last episodes, oldest first (the sum over dimensions of a vector reward)."""


@configurable
class Curriculum(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Asks a hook before each episode how the world should be set up.

    The hook returns attributes to set on the world, for example `{"gap": 0.5}`; a name that no layer of the
    world has is an error. Return an empty dict to leave things as they are.

    Args:
        env: the world to wrap.
        choose: called with a `CurriculumStatus` before each reset.
        window: how many returns the status remembers.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        choose: Callable[[CurriculumStatus], Mapping[str, Any]],
        window: int = 20,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, choose=choose, window=window)
        gym.Wrapper.__init__(self, env)
        self._choose = choose
        self._returns: deque[float] = deque(maxlen=window)
        self._episodes = 0
        self._steps = 0
        self._return = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Sets the world up as the hook says, then resets it."""
        status = CurriculumStatus(self._episodes, self._steps, tuple(self._returns))
        for name, value in self._choose(status).items():
            if not self.env.has_wrapper_attr(name):
                raise ValueError(f"The curriculum sets {name!r}, which {self.env} does not have.")
            self.env.set_wrapper_attr(name, value, force=False)
        self._return = 0.0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps the world and keeps the status."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        self._return += float(np.sum(np.asarray(reward)))
        if terminated or truncated:
            self._episodes += 1
            self._returns.append(self._return)
        return observation, reward, terminated, truncated, info


def _normalized(probabilities: Sequence[float] | None, count: int) -> Any:
    if probabilities is None:
        return np.full(count, 1.0 / count)
    weights = np.asarray(probabilities, np.float64)
    if weights.shape != (count,) or (weights < 0).any() or weights.sum() <= 0:
        raise ValueError(f"probabilities must be {count} numbers >= 0; got {probabilities!r}.")
    return weights / weights.sum()
