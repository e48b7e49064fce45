"""Making one Gymnasium world: from a name or a function, wrapped, seeded, and described."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from rein.envs.action_forms import UNBOUNDED, FittedActions, action_form
from rein.envs.masks import valid_actions
from rein.envs.shared_block import BatchSpaces

__all__ = ["EnvFactory", "describe", "row_seed"]

logger = logging.getLogger("rein.envs")

_SUCCESS = "is_success"
_FIRST_STEPS = 5

EnvSource = str | Callable[..., gym.Env[Any, Any]]


def row_seed(seed: int, row: int, restart: int = 0) -> int:
    """The seed of environment `row` after `restart` restarts, in a batch seeded with `seed`; 32 bits."""
    key = (row, restart) if restart else (row,)
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1)[0])


@dataclass(frozen=True)
class EnvFactory:
    """Makes the worlds of a batch; travels to worker processes.

    Attributes:
        source: a name that `rein.envs.suites.load` knows (any Gymnasium id among them), or a function that returns a
            `gymnasium.Env`.
        wrappers: applied in order to each world; each takes and returns a `gymnasium.Env`.
        kwargs: passed to the function or to the suite.
        loader: called as `loader(source, **kwargs)` in their place.
        form: one of `ACTION_FORMS`, which the actions are brought into.
        masks: whether the world says which actions are valid, for `ActionMaskObservation` to show.
        success: what `is_success` is where the world does not say it in its info; None leaves it out, unless the world
            declares it.
    """

    source: EnvSource
    wrappers: tuple[Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]], ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    loader: Callable[..., gym.Env[Any, Any]] | None = None
    form: str = "any"
    masks: bool = False
    success: float | None = None

    def make(self) -> gym.Env[Any, Any]:
        """A new world, not yet reset."""
        if self.loader is not None:
            env = self.loader(self.source, **self.kwargs)
        elif isinstance(self.source, str):
            from rein.envs import suites

            env = suites.load(self.source, **self.kwargs)
        else:
            env = self.source(**self.kwargs)
        env = _without_order_check(env)
        for wrapper in self.wrappers:
            env = wrapper(env)
        if not isinstance(env, gym.Env):
            from rein.envs.boards.pettingzoo import is_aec

            if is_aec(env):
                raise TypeError(f"{self.name} gave a game of PettingZoo: give the game itself, or its module, as env")
            raise TypeError(f"{self.name} gave {type(env).__name__}: a world must be a gymnasium.Env")
        if action_form(env.action_space, self.form) is not None:
            env = FittedActions(env, self.form)
        if self.masks:
            from rein.envs.wrappers import ActionMaskObservation

            env = ActionMaskObservation(env)
        if self.success is not None and not _declares_success(env):
            from rein.envs.wrappers import InfoMetrics

            env = InfoMetrics(env, {_SUCCESS: self.success})
        return env

    @property
    def name(self) -> str:
        """What to call the world in messages."""
        if isinstance(self.source, str):
            return self.source
        return getattr(self.source, "__qualname__", None) or repr(self.source)


def fitted_factory(factory: EnvFactory, with_masks: bool) -> EnvFactory:
    """The factory after a look at its world: shows masks of valid actions and success if there are any, says what is odd.

    Args:
        factory: makes the worlds.
        with_masks: whether whoever acts can make use of masks.
    """
    env = factory.make()
    try:
        _tell_unbounded(env, factory.name)
        infos = _first_infos(env)
        if any(_SUCCESS in info for info in infos):
            factory = replace(factory, success=0.0)
        if not _has_masks(env, infos):
            return factory
        if with_masks and isinstance(env.action_space, spaces.Discrete):
            return replace(factory, masks=True)
        why = (
            f"masks work for one Discrete action, not {env.action_space}" if with_masks else "the algorithm takes none"
        )
        logger.warning(
            "%s tells which actions are valid, which is ignored: %s; use ppo, a2c, dqn or sac with one Discrete action, or "
            "let the world treat invalid actions",
            factory.name,
            why,
        )
        return factory
    finally:
        close_quietly(env)


def success_factory(factory: EnvFactory) -> EnvFactory:
    """The factory, with `is_success` of each world for who evaluates it: NaN where nothing is said, in all steps maybe."""
    return factory if factory.success is not None else replace(factory, success=math.nan)


def _declares_success(env: gym.Env[Any, Any]) -> bool:
    declared = attribute(env, "env_info_space")
    return isinstance(declared, spaces.Dict) and _SUCCESS in declared.spaces


def _first_infos(env: gym.Env[Any, Any]) -> list[dict[str, Any]]:
    """What a world reports in its first steps; a world that fails is left to those who count that."""
    infos: list[dict[str, Any]] = []
    try:
        env.action_space.seed(0)
        observation, info = env.reset(seed=0)
        infos.append(info)
        for _ in range(_FIRST_STEPS):
            mask = valid_actions(env, observation, infos[-1])
            masked = mask is not None and isinstance(env.action_space, spaces.Discrete)
            action = env.action_space.sample(mask=mask.astype(np.int8) if masked else None)  # type: ignore[union-attr]
            observation, _, terminated, truncated, info = env.step(action)
            infos.append(info)
            if terminated or truncated:
                break
    except Exception as error:
        logger.debug("a first look at the environment raised %r", error)
    return [info for info in infos if isinstance(info, dict)]


def _has_masks(env: gym.Env[Any, Any], infos: Sequence[dict[str, Any]]) -> bool:
    """Whether a world tells which actions are valid, and does not show it in the observation already."""
    space = env.observation_space
    if isinstance(space, spaces.Dict):
        if "valid_action_mask" in space.spaces:
            return False
        if "action_mask" in space.spaces:
            return True
    return callable(attribute(env, "action_masks")) or any("action_mask" in info for info in infos)


def _tell_unbounded(env: gym.Env[Any, Any], name: str) -> None:
    fitted = attribute(env, "fitted_from")
    form = None if fitted is None else action_form(*fitted)
    if form is not None and form.unbounded:
        where = ", ".join(repr(path) for path in form.unbounded if path)
        logger.warning(
            "%s: the action%s has no bounds, so the agent acts within %g of zero or of its one bound: give the Box bounds to "
            "have others",
            name,
            f" {where}" if where else "",
            UNBOUNDED,
        )


def _without_order_check(env: Any) -> Any:
    """Drops the check that `reset` comes before `step` from the usual stack: the batch always resets first."""
    if type(env) is TimeLimit and type(env.env) is OrderEnforcing:
        env.env = env.env.env
    return env


def attribute(env: gym.Env[Any, Any], name: str) -> Any:
    """`name` of the outermost layer of `env` that has it; None if none has."""
    try:
        return env.get_wrapper_attr(name)
    except AttributeError:
        return None


def describe(env: gym.Env[Any, Any]) -> BatchSpaces:
    """What `env` takes and gives, from its spaces and its optional attributes.

    Optional attributes: `reward_space` (Box of shape [D], for vector rewards), `env_info_space` (Dict of numbers found in
    `info`), `num_tasks` and `task_names`.
    """
    reward_space = attribute(env, "reward_space")
    reward_dim = None
    if reward_space is not None and reward_space.shape != ():
        if not isinstance(reward_space, spaces.Box) or len(reward_space.shape) != 1:
            raise ValueError(f"reward_space is {reward_space}: give a Box of shape () or (D,)")
        reward_dim = int(reward_space.shape[0])
    info_space = attribute(env, "env_info_space")
    if info_space is not None and not isinstance(info_space, spaces.Dict):
        raise ValueError(f"env_info_space is {info_space}: give a gymnasium.spaces.Dict of numbers found in info")
    names = attribute(env, "task_names")
    num_tasks = attribute(env, "num_tasks")
    return BatchSpaces(
        observation=env.observation_space,
        action=env.action_space,
        reward_dim=reward_dim,
        env_info=info_space,
        num_tasks=None if num_tasks is None else int(num_tasks),
        task_names=None if names is None else tuple(names),
        fitted_from=attribute(env, "fitted_from"),
    )


def close_quietly(env: gym.Env[Any, Any]) -> None:
    """Closes a world that has already failed; what that raises is only logged."""
    try:
        env.close()
    except Exception as error:
        logger.debug("closing a failed environment raised %r", error)
