"""Looks for what is wrong with a world before anyone trains in it: each fault in one line, with what to do."""

import time
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rein.envs.leaves import describe_mismatch, leaves_of, reader
from rein.envs.masks import valid_actions
from rein.envs.single import EnvFactory, attribute

__all__ = ["EnvCheck", "Finding", "check_env"]

_STEPS = 300
_SAME_STEPS = 30


class Finding(NamedTuple):
    """Something to change, or to know."""

    kind: str
    """"fault", what stops or spoils training; "advice", what may; "fact", what was found."""
    what: str
    """One line: what is wrong, and how to mend it."""


class EnvCheck(NamedTuple):
    """What came of a check."""

    findings: list[Finding]
    steps_per_second: float | None

    @property
    def faults(self) -> list[str]:
        """What must be mended."""
        return [one.what for one in self.findings if one.kind == "fault"]


def check_env(
    source: Any, num_steps: int = _STEPS, env_kwargs: dict[str, Any] | None = None, quick: bool = False
) -> EnvCheck:
    """Tries a world with random actions, valid ones if it tells them.

    Args:
        source: an id, a class, a function that returns a `gymnasium.Env`, or an instance, which is used as it is.
        num_steps: to try, over as many episodes as they make.
        env_kwargs: passed to what makes the world.
        quick: leave out what needs further worlds: seeds and pickling.
    """
    return _Check(source, num_steps, dict(env_kwargs or {})).run(quick)


class _StopError(Exception):
    """Nothing more can be tried."""


class _Check:
    def __init__(self, source: Any, num_steps: int, kwargs: dict[str, Any]) -> None:
        self._factory: Callable[[], Any]
        if isinstance(source, gym.Env):
            self._factory = lambda: source
            self._is_instance = True
        else:
            self._factory = source if callable(source) and not kwargs else EnvFactory(source, kwargs=kwargs).make
            self._is_instance = False
        self._source = source
        self._num_steps = num_steps
        self._findings: list[Finding] = []
        self._told: set[str] = set()
        self._seconds: float | None = None

    def run(self, quick: bool) -> EnvCheck:
        """All of it, or the quick part, as far as it gets."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                env = self._make()
                self._check_spaces(env)
                self._try_episodes(env)
                if not quick:
                    self._check_determinism()
                    self._check_pickle()
            except _StopError:
                pass
        return EnvCheck(self._findings, None if not self._seconds else self._num_steps / self._seconds)

    def _say(self, kind: str, what: str) -> None:
        line = " ".join(what.split())
        if line not in self._told:
            self._told.add(line)
            self._findings.append(Finding(kind, line))

    def _fault(self, what: str) -> None:
        self._say("fault", what)

    def _call(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            self._fault(f"{name} raised {type(error).__name__}: {error} ({_where(error)}): mend it there")
            raise _StopError from error

    def _make(self) -> Any:
        try:
            env = self._factory()
        except Exception as error:
            self._fault(f"the world cannot be made: {type(error).__name__}: {error} ({_where(error)})")
            raise _StopError from error
        if not isinstance(env, gym.Env):
            if all(hasattr(env, name) for name in ("reset", "step")):
                self._fault(
                    f"{type(env).__name__} is no gymnasium.Env: derive it from gymnasium.Env, or if it is of the old gym, "
                    "wrap it with gymnasium.make('GymV26Environment-v0', env=...) of the package shimmy"
                )
            else:
                self._fault(f"what was made is a {type(env).__name__}: return a gymnasium.Env")
            raise _StopError
        return env

    # Spaces ------------------------------------------------------------------------------------------------------

    def _check_spaces(self, env: Any) -> None:
        for name in ("observation_space", "action_space"):
            space = getattr(env, name, None)
            if not isinstance(space, spaces.Space):
                self._fault(f"{name} is {space!r}: set it to a gymnasium space in __init__")
                raise _StopError
            try:
                leaves = leaves_of(space)
            except TypeError as error:
                self._fault(f"{name}: {error}")
                raise _StopError from error
            if not leaves:
                self._fault(f"{name} is {space}, which holds nothing: give it at least one part")
                raise _StopError
            for path, leaf in _parts(space):
                self._check_space(f"{name}{path}", leaf, name == "action_space")
        if any(one.kind == "fault" for one in self._findings):
            raise _StopError  # nothing can be drawn from such spaces, nor compared with them

    def _check_space(self, name: str, space: spaces.Space[Any], is_action: bool) -> None:
        if not isinstance(space, spaces.Box):
            return
        if np.isnan(space.low).any() or np.isnan(space.high).any():
            self._fault(f"{name} has bounds of NaN: give numbers, or -inf and inf")
        elif (space.low > space.high).any():
            self._fault(f"{name} has a lower bound above the upper: exchange them")
        elif (space.low == space.high).all() and space.shape != (0,):
            self._say("advice", f"{name} can only be {space.low.flat[0]}: leave it out")
        if 0 in space.shape:
            self._fault(f"{name} has shape {space.shape}, without any number: leave it out")
        if is_action and space.dtype.kind == "f" and not space.is_bounded():
            self._say("advice", f"{name} has no bounds: give it some; agents act within 10 of zero otherwise")

    # Episodes ----------------------------------------------------------------------------------------------------

    def _try_episodes(self, env: Any) -> None:
        env.action_space.seed(0)
        observation, info = self._reset(env, seed=0)
        self._check_sample(env, observation, "observation of reset")
        ended = steps = length = longest = 0
        seconds = 0.0
        while steps < self._num_steps:
            action = self._sample(env, observation, info)
            start = time.perf_counter()
            returned = self._call("step", env.step, action)
            seconds += time.perf_counter() - start
            done = self._check_step(env, returned)
            observation, info = returned[0], returned[-1]
            steps, length = steps + 1, length + 1
            longest = max(longest, length)
            if done:
                ended, length = ended + 1, 0
                observation, info = self._reset(env)
                self._check_sample(env, observation, "observation of reset after the end")
        self._seconds = seconds  # A world that failed before has no speed.
        if not ended:
            self._say(
                "advice",
                f"no episode ended in {steps} steps: if none ever does, add gymnasium.wrappers.TimeLimit, so that there is "
                "something to evaluate",
            )
        self._say("fact", f"{steps} steps, {ended} episodes ended, the longest of {longest} steps")
        if valid_actions(env, observation, info) is not None:
            self._say("fact", "tells valid actions: ppo, a2c, ppg, dqn and sac take no others")

    def _reset(self, env: Any, **arguments: Any) -> Any:
        try:
            returned = env.reset(**arguments)
        except TypeError as error:
            if "seed" in str(error):
                self._fault("reset does not take seed: write def reset(self, *, seed=None, options=None)")
                raise _StopError from error
            self._fault(f"reset raised TypeError: {error} ({_where(error)}): mend it there")
            raise _StopError from error
        except Exception as error:
            self._fault(f"reset raised {type(error).__name__}: {error} ({_where(error)}): mend it there")
            raise _StopError from error
        if not isinstance(returned, tuple) or len(returned) != 2:
            self._fault(f"reset returned {_kind(returned)}: return (observation, info), as Gymnasium does since 0.26")
            raise _StopError
        if not isinstance(returned[1], dict):
            self._fault(f"reset returned {_kind(returned[1])} as info: return a dict")
        return returned

    def _sample(self, env: Any, observation: Any, info: Any) -> Any:
        """A random action; a valid one if the world tells which are and there is one."""
        mask = self._call("the mask of valid actions", valid_actions, env, observation, info)
        if mask is None or mask.shape != (getattr(env.action_space, "n", None),) or not mask.any():
            return env.action_space.sample()
        return env.action_space.sample(mask=mask.astype(np.int8))

    def _check_step(self, env: Any, returned: Any) -> bool:
        if isinstance(returned, tuple) and len(returned) == 4:
            self._fault(
                "step returned 4 values, as the old gym did: return (observation, reward, terminated, truncated, info)"
            )
            raise _StopError
        if not isinstance(returned, tuple) or len(returned) != 5:
            self._fault(f"step returned {_kind(returned)}: return (observation, reward, terminated, truncated, info)")
            raise _StopError
        observation, reward, terminated, truncated, info = returned
        self._check_sample(env, observation, "observation of step")
        self._check_reward(env, reward)
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(flag, bool | np.bool_):
                self._fault(f"{name} is {_kind(flag)}: return True or False")
        if not isinstance(info, dict):
            self._fault(f"info is {_kind(info)}: return a dict")
        elif "action_mask" in info and np.shape(info["action_mask"]) != (getattr(env.action_space, "n", None),):
            self._fault(
                f"info['action_mask'] has shape {np.shape(info['action_mask'])}: give one entry for each action of "
                f"{env.action_space}"
            )
        return bool(terminated) or bool(truncated)

    def _check_reward(self, env: Any, reward: Any) -> None:
        space = attribute(env, "reward_space")
        if space is not None and space.shape:
            if np.shape(reward) != space.shape:
                self._fault(f"reward has shape {np.shape(reward)}: reward_space says {space.shape}")
            return
        if reward is None:
            self._fault("reward is None: return a number from every step")
        elif isinstance(reward, str) or not isinstance(reward, int | float | np.number | np.ndarray | np.bool_):
            self._fault(f"reward is {_kind(reward)}: return a number")
        elif np.size(reward) != 1:
            self._fault(f"reward has shape {np.shape(reward)}: return one number, or declare reward_space")
        elif not np.isfinite(float(np.asarray(reward).item())):
            self._fault(f"reward is {np.asarray(reward).item()}: return a finite number")

    def _check_sample(self, env: Any, observation: Any, what: str) -> None:
        for leaf in leaves_of(env.observation_space):
            name = f"{what} at {leaf.path!r}" if leaf.path else what
            try:
                value = reader(leaf.keys)(observation)
            except (KeyError, IndexError, TypeError) as error:
                self._fault(f"{name} is missing ({error!r}): return what observation_space says")
                continue
            if value is None:
                self._fault(f"{name} is None: return an array of shape {leaf.shape}")
                continue
            problem = describe_mismatch(value, leaf)
            if problem is not None:
                self._fault(f"{name} {problem}: change one of the two")
                continue
            array = np.asarray(value)
            if array.dtype.kind == "f" and np.isnan(array).any():
                self._fault(f"{name} contains NaN: look for a division by 0 or a square root below 0")
                continue
            space: Any = env.observation_space
            for key in leaf.keys:
                space = space[key]
            self._check_limits(name, array, space)

    def _check_limits(self, name: str, array: Any, space: Any) -> None:
        if isinstance(space, spaces.Box):
            low, high = space.low, space.high
        elif isinstance(space, spaces.Discrete):
            low, high = np.asarray(space.start), np.asarray(space.start + space.n - 1)
        elif isinstance(space, spaces.MultiDiscrete):
            low, high = space.start, space.start + space.nvec - 1
        else:
            low, high = np.zeros(space.shape), np.ones(space.shape)
        if (array < low).any() or (array > high).any():
            found = f"from {array.min():g} to {array.max():g}"
            said = f"{np.min(low):g} to {np.max(high):g}"
            self._fault(f"{name} goes {found}, its space from {said}: widen the space or clip the observation")

    # Again ---------------------------------------------------------------------------------------------------------

    def _check_determinism(self) -> None:
        first, second = self._trajectory(0), self._trajectory(0)
        if first != second:
            self._fault(
                "two runs with the same seed differ: call super().reset(seed=seed) in reset, draw from self.np_random only, "
                "and set everything that an episode changes in reset"
            )

    def _trajectory(self, seed: int) -> list[bytes]:
        env = self._make()
        env.action_space.seed(seed)
        observation, info = self._reset(env, seed=seed)
        seen = [_bytes(observation)]
        for _ in range(_SAME_STEPS):
            action = self._sample(env, observation, info)
            observation, reward, terminated, truncated, info = self._call("step", env.step, action)
            seen.append(_bytes(observation) + _bytes(reward))
            if terminated or truncated:
                observation, info = self._reset(env)
                seen.append(_bytes(observation))
        if not self._is_instance:
            env.close()
        return seen

    def _check_pickle(self) -> None:
        if isinstance(self._source, str):
            return
        try:
            ForkingPickler.dumps(self._source)
        except Exception as error:
            self._say(
                "advice",
                f"what makes the world cannot be sent to worker processes ({type(error).__name__}): define it at the top of "
                "a module to use backend='process'",
            )


def _parts(space: spaces.Space[Any], path: str = "") -> Iterator[tuple[str, spaces.Space[Any]]]:
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _parts(part, f"{path}[{key!r}]")
    elif isinstance(space, spaces.Tuple):
        for i, part in enumerate(space.spaces):
            yield from _parts(part, f"{path}[{i}]")
    else:
        yield path, space


def _bytes(sample: Any) -> bytes:
    if isinstance(sample, dict):
        return b"".join(_bytes(sample[key]) for key in sorted(sample))
    if isinstance(sample, tuple | list):
        return b"".join(_bytes(part) for part in sample)
    return np.asarray(sample).tobytes()


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)} values"
    return f"{value!r:.40}, a {type(value).__name__}"


def _where(error: BaseException) -> str:
    """The innermost line of the traceback."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "unknown line" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
