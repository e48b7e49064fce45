"""Returns and lengths of episodes as they happen: in `info["episode"]`, and in CSV files."""

import csv
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from rein.compat.sb3.vec_env import BEGINS, Observations, StepReturn, VecEnv, VecEnvWrapper


class EpisodeFile:
    """A CSV file of episodes: a line of facts as JSON, then `r,l,t` and what else is asked for."""

    ending = "monitor.csv"

    def __init__(
        self, filename: str, facts: dict[str, Any], keys: Sequence[str], override_existing: bool = True
    ) -> None:
        """Begins the file, or goes on with it.

        Args:
            filename: with the ending, a folder, or what comes before the ending.
            facts: for the first line.
            keys: columns besides `r`, `l` and `t`.
            override_existing: False appends to a file that is there.
        """
        path = Path(filename)
        if path.is_dir():
            path = path / self.ending
        elif not filename.endswith(self.ending):
            path = Path(f"{filename}.{self.ending}")
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = override_existing or not path.exists()
        self._file = path.open("w" if override_existing else "a", newline="")
        self._writer = csv.DictWriter(self._file, fieldnames=("r", "l", "t", *keys))
        if is_new:
            self._file.write(f"#{json.dumps(facts)}\n")
            self._writer.writeheader()
            self._file.flush()

    def add(self, episode: dict[str, Any]) -> None:
        """Writes a line."""
        self._writer.writerow(episode)
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class Monitor(gym.Wrapper[Any, Any, Any, Any]):
    """A world that tells return `r`, length `l` and seconds since it was made `t` of every episode that ends."""

    EXT = "monitor.csv"

    def __init__(
        self,
        env: gym.Env[Any, Any],
        filename: str | None = None,
        allow_early_resets: bool = True,
        reset_keywords: Sequence[str] = (),
        info_keywords: Sequence[str] = (),
        override_existing: bool = True,
    ) -> None:
        """Wraps.

        Args:
            env: the world.
            filename: of the CSV file; None writes none.
            allow_early_resets: False makes a reset before the end of an episode an error.
            reset_keywords: arguments that every reset must have, for the file.
            info_keywords: entries of the info at the end of an episode, for the file.
            override_existing: False appends to a file that is there.
        """
        super().__init__(env)
        self.t_start = time.time()
        self._begun = time.perf_counter()
        self.allow_early_resets = allow_early_resets
        self.reset_keywords = tuple(reset_keywords)
        self.info_keywords = tuple(info_keywords)
        facts = {"t_start": self.t_start, "env_id": None if env.spec is None else env.spec.id}
        columns = (*self.reset_keywords, *self.info_keywords)
        self._lines = None if filename is None else EpisodeFile(filename, facts, columns, override_existing)
        self.rewards: list[float] = []
        self.needs_reset = True
        self.total_steps = 0
        self._returns: list[float] = []
        self._lengths: list[int] = []
        self._times: list[float] = []
        self._reset_values: dict[str, Any] = {}

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Begins an episode."""
        if not self.allow_early_resets and not self.needs_reset:
            raise RuntimeError("reset before the episode ended: step it to its end, or allow_early_resets=True")
        for key in self.reset_keywords:
            if key not in kwargs:
                raise ValueError(f"reset needs {key}=, since Monitor was made with it in reset_keywords")
            self._reset_values[key] = kwargs[key]
        self.rewards, self.needs_reset = [], False
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step."""
        if self.needs_reset:
            raise RuntimeError("the episode has ended: reset before the next step")
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.rewards.append(float(reward))
        self.total_steps += 1
        if terminated or truncated:
            self.needs_reset = True
            info = {**info, "episode": self._end_episode(info)}
        return observation, reward, terminated, truncated, info

    def _end_episode(self, info: dict[str, Any]) -> dict[str, Any]:
        seconds = time.perf_counter() - self._begun
        episode = {"r": round(sum(self.rewards), 6), "l": len(self.rewards), "t": round(seconds, 6)}
        self._returns.append(sum(self.rewards))
        self._lengths.append(len(self.rewards))
        self._times.append(seconds)
        episode |= {key: info[key] for key in self.info_keywords} | self._reset_values
        if self._lines is not None:
            self._lines.add(episode)
        return episode

    def close(self) -> None:
        """Ends the world."""
        super().close()
        if self._lines is not None:
            self._lines.close()

    def get_total_steps(self) -> int:
        """Steps so far."""
        return self.total_steps

    def get_episode_rewards(self) -> list[float]:
        """Returns of the episodes that have ended."""
        return self._returns

    def get_episode_lengths(self) -> list[int]:
        """Lengths of the episodes that have ended."""
        return self._lengths

    def get_episode_times(self) -> list[float]:
        """Seconds after which they ended."""
        return self._times


class VecMonitor(VecEnvWrapper):
    """What `Monitor` is, for a batch."""

    def __init__(self, venv: VecEnv, filename: str | None = None, info_keywords: Sequence[str] = ()) -> None:
        """Wraps.

        Args:
            venv: the batch.
            filename: of the CSV file; None writes none.
            info_keywords: entries of the info at the end of an episode, for the file.
        """
        super().__init__(venv)
        self._begun = time.perf_counter()
        self.info_keywords = tuple(info_keywords)
        facts = {"t_start": time.time(), "env_id": None}
        self._lines = None if filename is None else EpisodeFile(filename, facts, self.info_keywords)
        self.episode_returns = np.zeros(self.num_envs, np.float64)
        self.episode_lengths = np.zeros(self.num_envs, np.int64)

    def reset(self) -> Observations:
        """Begins episodes."""
        self.episode_returns[:], self.episode_lengths[:] = 0, 0
        return self.venv.reset()

    def step_wait(self) -> StepReturn:
        """See `VecEnv`."""
        observations, rewards, dones, infos = self.venv.step_wait()
        self.episode_returns += rewards
        self.episode_lengths += [BEGINS not in info for info in infos]
        for row in np.flatnonzero(dones):
            seconds = round(time.perf_counter() - self._begun, 6)
            episode = {"r": float(self.episode_returns[row]), "l": int(self.episode_lengths[row]), "t": seconds}
            episode |= {key: infos[row][key] for key in self.info_keywords}
            infos[row] = {**infos[row], "episode": episode}
            self.episode_returns[row], self.episode_lengths[row] = 0, 0
            if self._lines is not None:
                self._lines.add(episode)
        return observations, rewards, dones, infos

    def close(self) -> None:
        """Ends the worlds."""
        if self._lines is not None:
            self._lines.close()
        super().close()


def get_monitor_files(path: str) -> list[str]:
    """The files of `Monitor` in a folder."""
    return sorted(str(one) for one in Path(path).glob(f"*{Monitor.EXT}"))


def load_results(path: str) -> Any:
    """All episodes that `Monitor` wrote in a folder, as a pandas table ordered by time."""
    try:
        import pandas as pd  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise ImportError("load_results gives a pandas table: pip install pandas") from None
    files = get_monitor_files(path)
    if not files:
        raise FileNotFoundError(f"{path} has no file *{Monitor.EXT}: give Monitor or make_vec_env that folder")
    tables = []
    for name in files:
        with open(name) as file:
            facts = json.loads(file.readline().removeprefix("#"))
            table = pd.read_csv(file, index_col=None)
        table["t"] += facts["t_start"]
        tables.append(table)
    table = pd.concat(tables).sort_values("t").reset_index(drop=True)
    table["t"] -= table["t"].min()
    return table
