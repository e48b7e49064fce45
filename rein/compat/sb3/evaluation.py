"""Whole episodes of a policy, scored."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from rein.compat.sb3.dummy_vec_env import DummyVecEnv
from rein.compat.sb3.monitoring import Monitor, VecMonitor
from rein.compat.sb3.vec_env import VecEnv, is_vecenv_wrapped


def evaluate_policy(
    model: Any,
    env: Any,
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    render: bool = False,
    callback: Callable[[dict[str, Any], dict[str, Any]], None] | None = None,
    reward_threshold: float | None = None,
    return_episode_rewards: bool = False,
    warn: bool = True,
) -> tuple[float, float] | tuple[list[float], list[int]]:
    """Mean and deviation of the returns of whole episodes, or the episodes themselves.

    In a batch each world plays its share of the episodes, so that short ones do not count too often. Where a `Monitor` is,
    its returns count, which wrappers around it have not changed.

    Args:
        model: has `predict`.
        env: a world or a batch.
        n_eval_episodes: how many.
        deterministic: whether the policy draws no lots.
        render: whether to render.
        callback: called after each step with the local and the global variables.
        reward_threshold: a mean below it is an error.
        return_episode_rewards: give lists of returns and lengths instead.
        warn: warn if there is no `Monitor`.
    """
    if not isinstance(env, VecEnv):
        world = env
        env = DummyVecEnv([lambda: world])
    is_monitored = is_vecenv_wrapped(env, VecMonitor) or env.env_is_wrapped(Monitor)[0]
    if warn and not is_monitored:
        warnings.warn(
            "evaluate_policy: env has no Monitor, so rewards and lengths are those that its wrappers show",
            UserWarning,
            stacklevel=2,
        )
    shares = np.array([(n_eval_episodes + row) // env.num_envs for row in range(env.num_envs)])
    episode_rewards: list[float] = []
    episode_lengths: list[int] = []
    counts = np.zeros(env.num_envs, int)
    current_rewards, current_lengths = np.zeros(env.num_envs), np.zeros(env.num_envs, int)
    observations, states = env.reset(), None
    episode_starts = np.ones(env.num_envs, bool)
    while (counts < shares).any():
        actions, states = model.predict(
            observations, state=states, episode_start=episode_starts, deterministic=deterministic
        )
        observations, rewards, dones, infos = env.step(actions)
        current_rewards += rewards
        current_lengths += 1
        episode_starts = dones
        for i in range(env.num_envs):
            if counts[i] >= shares[i]:
                continue
            reward, done, info = rewards[i], dones[i], infos[i]
            if callback is not None:
                callback(locals(), globals())
            if not done:
                continue
            if is_monitored and "episode" not in info:
                current_rewards[i], current_lengths[i] = 0, 0  # A life ended, not a game.
                continue
            episode = info["episode"] if is_monitored else {"r": current_rewards[i], "l": current_lengths[i]}
            episode_rewards.append(float(episode["r"]))
            episode_lengths.append(int(episode["l"]))
            counts[i] += 1
            current_rewards[i], current_lengths[i] = 0, 0
        if render:
            env.render()
    mean, deviation = float(np.mean(episode_rewards)), float(np.std(episode_rewards))
    if reward_threshold is not None and mean <= reward_threshold:
        raise AssertionError(f"the mean return {mean:.2f} is not above reward_threshold={reward_threshold:.2f}")
    return (episode_rewards, episode_lengths) if return_episode_rewards else (mean, deviation)
