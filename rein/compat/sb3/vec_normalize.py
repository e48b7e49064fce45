"""Batches whose observations and rewards are normalized by what was seen of them."""

import copy
import os
from typing import Any, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rein.compat.sb3.vec_env import BEGINS, Observations, StepReturn, VecEnv, VecEnvWrapper, unwrap_vec_wrapper


class RunningMeanStd:
    """Mean and variance of all that was seen.

    Attributes:
        mean: of the shape of one sample.
        var: likewise.
        count: samples, with the small number it began with.
    """

    def __init__(self, epsilon: float = 1e-4, shape: tuple[int, ...] = ()) -> None:
        """Begins with mean 0 and variance 1 of weight `epsilon`."""
        self.mean: NDArray[np.float64] = np.zeros(shape, np.float64)
        self.var: NDArray[np.float64] = np.ones(shape, np.float64)
        self.count = epsilon

    def update(self, samples: NDArray[Any]) -> None:
        """Takes in samples [N, ...] (Chan et al. 1983, the formulas for two groups)."""
        if not len(samples):
            return
        number, total = len(samples), self.count + len(samples)
        delta = samples.mean(axis=0) - self.mean
        squares = self.var * self.count + samples.var(axis=0) * number + delta**2 * self.count * number / total
        self.mean = self.mean + delta * number / total
        self.var = squares / total
        self.count = total

    def copy(self) -> "RunningMeanStd":
        """Another with the same numbers."""
        return copy.deepcopy(self)


class VecNormalize(VecEnvWrapper):
    """Observations with mean 0 and variance 1, rewards divided by the deviation of the discounted return."""

    def __init__(
        self,
        venv: VecEnv,
        training: bool = True,
        norm_obs: bool = True,
        norm_reward: bool = True,
        clip_obs: float = 10.0,
        clip_reward: float = 10.0,
        gamma: float = 0.99,
        epsilon: float = 1e-8,
        norm_obs_keys: list[str] | None = None,
    ) -> None:
        """Wraps.

        Args:
            venv: the batch.
            training: whether the statistics change.
            norm_obs: whether observations are normalized.
            norm_reward: whether rewards are.
            clip_obs: largest absolute value of a normalized observation.
            clip_reward: of a normalized reward.
            gamma: discount of the return whose deviation counts.
            epsilon: added to variances.
            norm_obs_keys: which parts of a dict; None is all that are boxes.
        """
        super().__init__(venv)
        self.training = training
        self.norm_obs, self.norm_reward = norm_obs, norm_reward
        self.clip_obs, self.clip_reward = clip_obs, clip_reward
        self.gamma, self.epsilon = gamma, epsilon
        space = venv.observation_space
        if norm_obs and not isinstance(space, spaces.Box | spaces.Dict):
            raise ValueError(f"VecNormalize: norm_obs works on Box and Dict, not {space}: set norm_obs=False")
        if isinstance(space, spaces.Dict):
            boxes = [key for key, part in space.spaces.items() if isinstance(part, spaces.Box)]
            self.norm_obs_keys: list[str] | None = boxes if norm_obs_keys is None else list(norm_obs_keys)
        else:
            if norm_obs_keys is not None:
                raise ValueError("VecNormalize: norm_obs_keys is for dicts of observations: leave it out")
            self.norm_obs_keys = None
        self.obs_rms: Any = None
        if norm_obs:
            self.observation_space, self.obs_rms = self._normalized_space(space)
        self.ret_rms = RunningMeanStd()
        self.returns = np.zeros(self.num_envs)
        self.old_obs: Observations = None
        self.old_reward: NDArray[Any] = np.zeros(self.num_envs)

    def _normalized_space(self, space: Any) -> tuple[spaces.Space[Any], Any]:
        def box(part: Any) -> spaces.Box:
            return spaces.Box(-self.clip_obs, self.clip_obs, part.shape, np.float32)

        if self.norm_obs_keys is None:
            return box(space), RunningMeanStd(shape=space.shape)
        chosen = {key: box(space[key]) for key in self.norm_obs_keys}
        return (
            spaces.Dict({**space.spaces, **chosen}),
            {key: RunningMeanStd(shape=space[key].shape) for key in self.norm_obs_keys},
        )

    def reset(self) -> Observations:
        """Begins episodes."""
        observations = self.venv.reset()
        self.old_obs = observations
        self.returns[:] = 0
        self._learn(observations, np.ones(self.num_envs, bool))
        return self.normalize_obs(observations)

    def step_wait(self) -> StepReturn:
        """See `VecEnv`."""
        observations, rewards, dones, infos = self.venv.step_wait()
        self.old_obs, self.old_reward = observations, rewards
        # Last observations of episodes are shown only while a model trains, and do not count, as they do not elsewhere.
        self._learn(observations, ~dones if self.waiting else np.ones(self.num_envs, bool))
        acted = np.array([BEGINS not in info for info in infos])
        self.returns = self.returns * self.gamma + rewards
        if self.training:
            self.ret_rms.update(self.returns[acted])
        for info in infos:
            if "terminal_observation" in info:
                info["terminal_observation"] = self.normalize_obs(info["terminal_observation"])
        self.returns[dones] = 0
        return self.normalize_obs(observations), self.normalize_reward(rewards), dones, infos

    def _learn(self, observations: Observations, rows: NDArray[np.bool_]) -> None:
        if not (self.training and self.norm_obs):
            return
        for key, statistics in self._parts():
            statistics.update((observations if key is None else observations[key])[rows])

    def _parts(self) -> list[tuple[str | None, RunningMeanStd]]:
        return list(self.obs_rms.items()) if isinstance(self.obs_rms, dict) else [(None, self.obs_rms)]

    def normalize_obs(self, obs: Observations) -> Observations:
        """Observations [B, ...] or of one world, normalized by the statistics as they are."""
        return self._map(obs, self._normalized)

    def unnormalize_obs(self, obs: Observations) -> Observations:
        """What `normalize_obs` made `obs` of, but for clipping."""
        return self._map(obs, lambda x, one: x * np.sqrt(one.var + self.epsilon) + one.mean)

    def _normalized(self, obs: NDArray[Any], one: RunningMeanStd) -> NDArray[np.float32]:
        scaled = (obs - one.mean) / np.sqrt(one.var + self.epsilon)
        return np.clip(scaled, -self.clip_obs, self.clip_obs).astype(np.float32)

    def _map(self, obs: Observations, change: Any) -> Observations:
        if not self.norm_obs:
            return obs
        if isinstance(self.obs_rms, dict):
            return {**obs, **{key: change(obs[key], one) for key, one in self.obs_rms.items()}}
        return change(obs, self.obs_rms)

    def normalize_reward(self, reward: NDArray[Any]) -> NDArray[np.float32]:
        """Rewards [B], divided by the deviation of the return as it is."""
        if self.norm_reward:
            scale = np.sqrt(self.ret_rms.var + self.epsilon)
            reward = np.clip(reward / scale, -self.clip_reward, self.clip_reward)
        return np.asarray(reward, np.float32)

    def unnormalize_reward(self, reward: NDArray[Any]) -> NDArray[Any]:
        """What `normalize_reward` made `reward` of, but for clipping."""
        return reward * np.sqrt(self.ret_rms.var + self.epsilon) if self.norm_reward else reward

    def get_original_obs(self) -> Observations:
        """The last observations as the worlds gave them."""
        return copy.deepcopy(self.old_obs)

    def get_original_reward(self) -> NDArray[Any]:
        """The last rewards as the worlds gave them."""
        return self.old_reward.copy()

    def set_venv(self, venv: VecEnv) -> None:
        """Puts another batch in the place of the wrapped one."""
        self.venv = venv
        self.num_envs = venv.num_envs
        self.returns = np.zeros(self.num_envs)

    _SETTINGS = ("training", "norm_obs", "norm_reward", "clip_obs", "clip_reward", "gamma", "epsilon")

    def save(self, save_path: str | os.PathLike[str]) -> None:
        """Saves settings and statistics as arrays, which run no code when loaded."""
        arrays: dict[str, Any] = {name: np.array(getattr(self, name)) for name in self._SETTINGS}
        if self.norm_obs_keys is not None:
            arrays["norm_obs_keys"] = np.array(self.norm_obs_keys, dtype=np.str_)
        named = [] if self.obs_rms is None else self._parts()
        for key, one in [*((f"obs:{key or ''}", one) for key, one in named), ("ret", self.ret_rms)]:
            arrays |= {f"{key}|mean": one.mean, f"{key}|var": one.var, f"{key}|count": np.array(one.count)}
        with open(save_path, "wb") as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, load_path: str | os.PathLike[str], venv: VecEnv) -> Self:
        """What `save` saved, around another batch.

        Args:
            load_path: the file.
            venv: the batch.
        """
        with np.load(load_path, allow_pickle=False) as arrays:
            settings = {name: arrays[name].item() for name in cls._SETTINGS}
            keys = arrays["norm_obs_keys"].tolist() if "norm_obs_keys" in arrays else None
            loaded = cls(venv, **settings, norm_obs_keys=keys)
            named = [] if loaded.obs_rms is None else loaded._parts()
            for key, one in [*((f"obs:{key or ''}", one) for key, one in named), ("ret", loaded.ret_rms)]:
                if arrays[f"{key}|mean"].shape != one.mean.shape:
                    raise ValueError(f"{load_path} is about observations of another shape than those of this batch")
                one.mean, one.var = arrays[f"{key}|mean"], arrays[f"{key}|var"]
                one.count = float(arrays[f"{key}|count"])
        return loaded


def unwrap_vec_normalize(env: VecEnv) -> VecNormalize | None:
    """The `VecNormalize` around a batch; None if there is none."""
    found: VecNormalize | None = unwrap_vec_wrapper(env, VecNormalize)
    return found


def sync_envs_normalization(env: VecEnv, eval_env: VecEnv) -> None:
    """Copies the statistics of one batch to another with the same wrappers."""
    source, target = unwrap_vec_normalize(env), unwrap_vec_normalize(eval_env)
    if source is None or target is None:
        return
    target.obs_rms = copy.deepcopy(source.obs_rms)
    target.ret_rms = source.ret_rms.copy()
