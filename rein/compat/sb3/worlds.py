"""From what a script gives as its environment to a batch of worlds."""

import os
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from rein.compat.sb3.dummy_vec_env import DummyVecEnv
from rein.compat.sb3.monitoring import Monitor
from rein.compat.sb3.row import is_wrapped, unwrap_wrapper
from rein.compat.sb3.subproc_vec_env import SubprocVecEnv
from rein.compat.sb3.vec_env import VecEnv, is_vecenv_wrapped
from rein.compat.sb3.vec_wrappers import VecTransposeImage, transposed_space
from rein.envs.checking import check_env as look_at
from rein.runtime.seeding import seed_everything

__all__ = [
    "as_vec_env",
    "check_env",
    "is_wrapped",
    "make_atari_env",
    "make_vec_env",
    "set_random_seed",
    "unwrap_wrapper",
]


def make_vec_env(
    env_id: str | Callable[..., gym.Env[Any, Any]],
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | None = None,
    wrapper_class: Callable[..., gym.Env[Any, Any]] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    vec_env_cls: type[DummyVecEnv] | type[SubprocVecEnv] | None = None,
    vec_env_kwargs: dict[str, Any] | None = None,
    monitor_kwargs: dict[str, Any] | None = None,
    wrapper_kwargs: dict[str, Any] | None = None,
) -> VecEnv:
    """A batch of worlds, each in a `Monitor`.

    Args:
        env_id: an id, or what makes a world.
        n_envs: how many.
        seed: of the first; each further one has the next number.
        start_index: number of the first, in the names of files.
        monitor_dir: where to write their episodes; None writes none.
        wrapper_class: around each `Monitor`.
        env_kwargs: for the worlds.
        vec_env_cls: `DummyVecEnv` or `SubprocVecEnv`.
        vec_env_kwargs: for it.
        monitor_kwargs: for `Monitor`.
        wrapper_kwargs: for `wrapper_class`.
    """
    options = (monitor_dir, wrapper_class, env_kwargs or {}, monitor_kwargs or {}, wrapper_kwargs or {})
    makers = [
        partial(_make_one, env_id, row, None if seed is None else seed + row, *options)
        for row in range(start_index, start_index + n_envs)
    ]
    batch = (vec_env_cls or DummyVecEnv)(makers, **(vec_env_kwargs or {}))
    if seed is not None:
        batch.seed(seed)
    return batch


def _make_one(
    env_id: str | Callable[..., gym.Env[Any, Any]],
    row: int,
    seed: int | None,
    monitor_dir: str | None,
    wrapper_class: Callable[..., gym.Env[Any, Any]] | None,
    env_kwargs: dict[str, Any],
    monitor_kwargs: dict[str, Any],
    wrapper_kwargs: dict[str, Any],
) -> gym.Env[Any, Any]:
    env = _made_by_id(env_id, env_kwargs) if isinstance(env_id, str) else env_id(**env_kwargs)
    if seed is not None:
        env.action_space.seed(seed)
    if monitor_dir is not None:
        os.makedirs(monitor_dir, exist_ok=True)
    filename = None if monitor_dir is None else os.path.join(monitor_dir, str(row))
    env = Monitor(env, filename=filename, **monitor_kwargs)
    return env if wrapper_class is None else wrapper_class(env, **wrapper_kwargs)


def _made_by_id(env_id: str, env_kwargs: dict[str, Any]) -> gym.Env[Any, Any]:
    """The world of an id, with frames for whoever asks for them where it takes `render_mode`."""
    if "render_mode" in env_kwargs:
        return gym.make(env_id, **env_kwargs)
    try:
        return gym.make(env_id, render_mode="rgb_array", **env_kwargs)
    except TypeError:
        return gym.make(env_id, **env_kwargs)


def make_atari_env(
    env_id: str,
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | None = None,
    wrapper_kwargs: dict[str, Any] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    vec_env_cls: type[DummyVecEnv] | type[SubprocVecEnv] | None = None,
    vec_env_kwargs: dict[str, Any] | None = None,
    monitor_kwargs: dict[str, Any] | None = None,
) -> VecEnv:
    """What `make_vec_env` is, for Atari games: 84 x 84 gray frames, four frames an action, signs of rewards.

    An episode is a life unless `terminal_on_life_loss` is False, also for `Monitor`. Channels come first.

    Args:
        env_id: such as "ALE/Pong-v5" or "PongNoFrameskip-v4".
        n_envs: how many.
        seed: of the first.
        start_index: number of the first.
        monitor_dir: where to write their episodes.
        wrapper_kwargs: `noop_max`, `frame_skip`, `screen_size`, `terminal_on_life_loss`, `clip_reward`.
        env_kwargs: for the emulator.
        vec_env_cls: `DummyVecEnv` or `SubprocVecEnv`.
        vec_env_kwargs: for it.
        monitor_kwargs: for `Monitor`.
    """
    options = {"noop_max": 30, "frame_skip": 4, "screen_size": 84, "terminal_on_life_loss": True, "clip_reward": True}
    unknown = sorted(set(wrapper_kwargs or {}) - set(options))
    if unknown:
        raise ValueError(f"make_atari_env: wrapper_kwargs has {unknown[0]!r}, which cannot be honoured: leave it out")
    options |= wrapper_kwargs or {}
    maker = partial(_make_atari, env_id, options)
    view = _signs_of_rewards if options["clip_reward"] else None
    return make_vec_env(
        maker, n_envs, seed, start_index, monitor_dir, view, env_kwargs, vec_env_cls, vec_env_kwargs, monitor_kwargs
    )


def _make_atari(env_id: str, options: dict[str, Any], **kwargs: Any) -> gym.Env[Any, Any]:
    from rein.envs.suites.atari import DeepMindAtari, make_emulator

    return DeepMindAtari(
        make_emulator(env_id, **kwargs),
        frame_skip=options["frame_skip"],
        noop_max=options["noop_max"],
        screen_size=options["screen_size"],
        episodic_life=options["terminal_on_life_loss"],
    )


def _signs_of_rewards(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    return gym.wrappers.TransformReward(env, lambda reward: float(np.sign(float(reward))))


def as_vec_env(env: Any, verbose: int = 0) -> VecEnv:
    """A batch of whatever a script gives as its environment.

    Args:
        env: an id, a world, or a batch; a single world is stepped itself, in a `Monitor`.
        verbose: 1 prints what was wrapped.
    """
    if isinstance(env, str):
        env = _made_by_id(env, {})
    if isinstance(env, gym.vector.VectorEnv):
        raise ValueError("env is a gymnasium VectorEnv: give a VecEnv, such as make_vec_env(id, n_envs=8), or an id")
    if not isinstance(env, VecEnv):
        if not isinstance(env, gym.Env):
            raise ValueError(f"env is {env!r}: give an id, a gymnasium.Env or a VecEnv")
        single = env if is_wrapped(env, Monitor) else Monitor(env)
        if verbose >= 1:
            print("Wrapping the env in a Monitor and a DummyVecEnv")
        env = DummyVecEnv([lambda: single])
    if transposed_space(env.observation_space) != env.observation_space and not is_vecenv_wrapped(
        env, VecTransposeImage
    ):
        if verbose >= 1:
            print("Wrapping the env in a VecTransposeImage")
        env = VecTransposeImage(env)
    return env


def set_random_seed(seed: int, using_cuda: bool = False) -> None:
    """Seeds Python, numpy and torch."""
    seed_everything(seed, deterministic=using_cuda)


def check_env(env: gym.Env[Any, Any], warn: bool = True, skip_render_check: bool = True) -> None:
    """Refuses a world that breaks the rules of Gymnasium; what is only unusual becomes a warning.

    Args:
        env: the world.
        warn: whether to warn.
        skip_render_check: there is none.
    """
    result = look_at(env)
    if result.faults:
        raise AssertionError(result.faults[0])
    for finding in result.findings:
        if warn and finding.kind == "advice":
            warnings.warn(finding.what, UserWarning, stacklevel=2)
