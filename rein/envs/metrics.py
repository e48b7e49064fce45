"""Episode statistics collected on the batched stream of TimeSteps.

One `EpisodeMetrics` follows all environments of a batch at once: sums over running episodes are rows of one array, and
rows of finished episodes move to a window of the last ones. Only whole episodes are averaged: one whose FIRST step was
never seen (the stream began in its middle) is counted, but enters no average.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.data_structures import StepType, TimeStep

__all__ = [
    "AverageDiscountedReturnMetric",
    "AverageEnvInfoMetric",
    "AverageEpisodeLengthMetric",
    "AverageReturnMetric",
    "EnvironmentSteps",
    "EpisodeMetrics",
    "NumberOfEpisodes",
    "StepMetric",
]

_REDUCTIONS = ("mean", "sum", "last", "max", "min")
_SCALAR_REWARD = 0


@configurable
class EpisodeMetrics:
    """Return, length and env_info of the last episodes, and counts of steps and episodes.

    Call `update` with every TimeStep of an environment batch, in order. Columns per environment are the reward
    (one per dimension), the length and the entries of `env_info`.

    Args:
        window: how many of the last episodes the averages are over.
        reductions: how an entry of `env_info` is reduced over an episode: "mean" (the default for entries not
            named), "sum", "last", "max" or "min"; by dotted name.
    """

    def __init__(self, window: int = 100, reductions: Mapping[str, str] | None = None) -> None:
        if window < 1:
            raise ValueError(f"window must be at least 1 episode; got {window}.")
        self._reductions = dict(reductions or {})
        for name, reduction in self._reductions.items():
            if reduction not in _REDUCTIONS:
                raise ValueError(f"reductions[{name!r}] must be one of {_REDUCTIONS}; got {reduction!r}.")
        self.window = window
        self.environment_steps = 0
        """Steps taken in all environments together; FIRST steps, which no action led to, do not count."""
        self.number_of_episodes = 0
        """Episodes that ended, partial ones included."""
        self._whole_episodes = 0
        self._reward_dim = _SCALAR_REWARD
        self._info_names: tuple[str, ...] | None = None
        self._running: NDArray[np.float64] | None = None
        self._is_whole = np.zeros(0, np.bool_)
        self._finished: NDArray[np.float64] | None = None
        # Asked for far more often than episodes end.
        self._averages: dict[str, float] | None = None
        self._clock = time.perf_counter()
        self._clock_steps = 0

    def update(self, time_step: TimeStep) -> None:
        """Takes in one step of each environment.

        Args:
            time_step: with `step_type` [B], `reward` [B] or [B, d], and optionally `env_info`, a nest of [B].
        """
        step_type, reward = _array(time_step.step_type), _array(time_step.reward)
        running = self._running
        if running is None or self._info_names is None or len(running) != len(step_type):
            running = self._prepare(step_type, reward, time_step.env_info)
        infos = [_array(value)[None] for value in self._info_leaves(time_step.env_info)] if self._info_names else []
        self._add(running, reward[None], infos)
        first = step_type == StepType.FIRST
        num_first = int(np.count_nonzero(first))
        if num_first:
            running[first] = self._fresh_row
            self._is_whole[first] = True
        self.environment_steps += len(step_type) - num_first
        last = step_type == StepType.LAST
        if np.count_nonzero(last):
            self._finish(running, last)

    def update_all(self, time_steps: TimeStep) -> None:
        """Takes in several steps of each environment, [T, B, ...], as if by `update` one after the other."""
        step_type, reward = _array(time_steps.step_type), _array(time_steps.reward)
        running = self._running
        if running is None or self._info_names is None or len(running) != step_type.shape[1]:
            first = nest.map_structure(lambda tensor: tensor[0], time_steps)
            running = self._prepare(_array(first.step_type), _array(first.reward), first.env_info)
        infos = [_array(value) for value in self._info_leaves(time_steps.env_info)] if self._info_names else []
        is_mid = step_type == StepType.MID
        begin = 0
        # The steps up to here in one sum: episodes begin and end at few steps only.
        for step in () if is_mid.all() else np.flatnonzero(~is_mid.all(1)).tolist():
            self._add(running, reward[begin : step + 1], [values[begin : step + 1] for values in infos])
            begin = step + 1
            first, last = step_type[step] == StepType.FIRST, step_type[step] == StepType.LAST
            running[first] = self._fresh_row
            self._is_whole[first] = True
            if last.any():
                self._finish(running, last)
        if begin < len(reward):
            self._add(running, reward[begin:], [values[begin:] for values in infos])
        self.environment_steps += int(np.count_nonzero(step_type))

    def _add(self, running: NDArray[np.float64], reward: NDArray[Any], infos: list[NDArray[Any]]) -> None:
        """Adds up steps [S, B, ...] that no episode begins at, except with the last of them."""
        dim = reward.shape[2] if reward.ndim == 3 else 1
        running[:, :dim] += _total(reward).reshape(-1, dim)
        running[:, dim] += len(reward)
        assert self._info_names is not None
        for index, values in enumerate(infos):
            column = running[:, dim + 1 + index]
            reduction = self._reductions.get(self._info_names[index], "mean")
            if reduction in ("mean", "sum"):
                column += _total(values)
            elif reduction == "last":
                column[:] = values[-1]
            elif reduction == "max":
                np.maximum(column, values.max(0), out=column)
            else:
                np.minimum(column, values.min(0), out=column)

    def result(self) -> dict[str, float]:
        """Returns all metrics by name; averages are left out until a whole episode has ended.

        Names: those of `averages`, `EnvironmentSteps`, `NumberOfEpisodes`, and `StepsPerSecond` since the previous call.
        """
        return {
            **self.averages(),
            "EnvironmentSteps": float(self.environment_steps),
            "NumberOfEpisodes": float(self.number_of_episodes),
            "StepsPerSecond": self._steps_per_second(),
        }

    def averages(self) -> dict[str, float]:
        """Returns the averages over the window of episodes by name; nothing until a whole episode has ended.

        Names: `AverageReturn` (`AverageReturn/<i>` for each dimension of a vector reward), `AverageEpisodeLength`,
        `AverageEnvInfo/<name>`. Right after loading the last ones are missing: their names come with the next step.
        """
        if self._averages is None:
            # Their order does not matter here.
            rows = None if self._finished is None else self._finished[: self._whole_episodes]
            means = rows.mean(axis=0).tolist() if rows is not None and len(rows) else []
            self._averages = dict(zip(self._column_names(), means, strict=False))
        return dict(self._averages)

    def step_metrics(self) -> "list[StepMetric]":
        """Each metric by itself, with its name."""
        counts = ["EnvironmentSteps", "NumberOfEpisodes"]
        return [StepMetric(self, name) for name in [*counts, *self._column_names()]]

    @property
    def returns(self) -> Tensor:
        """[n] or [n, d] returns of the episodes in the window, oldest first; float64."""
        rows = self._window_rows()[:, : max(self._reward_dim, 1)]
        return torch.from_numpy(rows if self._reward_dim else rows[:, 0])

    @property
    def lengths(self) -> Tensor:
        """[n] lengths in steps of the episodes in the window, oldest first; int64."""
        return torch.from_numpy(self._window_rows()[:, max(self._reward_dim, 1)].astype(np.int64))

    @property
    def env_infos(self) -> dict[str, Tensor]:
        """[n] values of each env_info entry over the episodes in the window, oldest first; float64."""
        rows, start = self._window_rows(), max(self._reward_dim, 1) + 1
        names = self._info_names or ()
        return {name: torch.from_numpy(rows[:, start + i]) for i, name in enumerate(names)}

    def clear(self) -> None:
        """Empties the window; episodes in progress, counts and time go on."""
        self._whole_episodes = 0
        self._averages = None

    def forget_running_episodes(self) -> None:
        """Drops episodes in progress, for environments that were restarted or changed in number."""
        self._running = None

    def state_dict(self) -> dict[str, Tensor]:
        """Returns everything but the clock as tensors; the same stream then gives the same results."""
        counts = [
            self.environment_steps,
            self.number_of_episodes,
            self._whole_episodes,
            self._reward_dim,
        ]
        running = np.zeros((0, 0)) if self._running is None else self._running
        finished = np.zeros((0, 0)) if self._finished is None else self._finished
        return {
            "counts": torch.tensor(counts, dtype=torch.int64),
            "running": torch.from_numpy(running.copy()),
            "is_whole": torch.from_numpy(self._is_whole.copy()),
            "finished": torch.from_numpy(finished.copy()),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restores what `state_dict` returned, from metrics with the same window."""
        finished = state["finished"].numpy().copy()
        if len(finished) not in (0, self.window):
            raise ValueError(
                f"The saved metrics have a window of {len(finished)} episodes, these one of {self.window}."
            )
        counts = [int(count) for count in state["counts"]]
        self.environment_steps, self.number_of_episodes = counts[0], counts[1]
        self._whole_episodes, self._reward_dim = counts[2], counts[3]
        running = state["running"].numpy().copy()
        self._running = running if running.size else None
        self._is_whole = state["is_whole"].numpy().copy()
        self._finished = finished if finished.size else None
        self._info_names = self._averages = None
        self._clock, self._clock_steps = time.perf_counter(), self.environment_steps

    def _prepare(self, step_type: NDArray[Any], reward: NDArray[Any], env_info: Any) -> NDArray[np.float64]:
        """Lays out the columns at the first update, and checks them at the first one after loading."""
        if step_type.ndim != 1 or reward.ndim not in (1, 2) or len(reward) != len(step_type):
            raise ValueError(
                f"Expected step_type [B] and reward [B] or [B, d]; got shapes {step_type.shape} and {reward.shape}."
            )
        named = nest.flatten_with_paths(env_info)
        self._info_names = tuple(path or "value" for path, _ in named)
        self._is_flat_info = type(env_info) is dict and set(env_info) == set(self._info_names)
        unknown = set(self._reductions) - set(self._info_names)
        if unknown:
            raise ValueError(f"reductions name {sorted(unknown)}, but env_info has {list(self._info_names)}.")
        self._reward_dim = reward.shape[1] if reward.ndim == 2 else _SCALAR_REWARD
        start = max(self._reward_dim, 1) + 1
        columns = start + len(self._info_names)
        self._fresh_row = np.zeros(columns)
        for index, name in enumerate(self._info_names):
            limits = {"max": -np.inf, "min": np.inf}
            self._fresh_row[start + index] = limits.get(self._reductions.get(name, "mean"), 0.0)
        if self._running is None:
            self._running = np.tile(self._fresh_row, (len(step_type), 1))
            self._is_whole = np.zeros(len(step_type), np.bool_)
        if self._running.shape != (len(step_type), columns):
            raise ValueError(
                f"The metrics follow {len(self._running)} environments with {self._running.shape[1]} numbers each, but "
                f"this step has {len(step_type)} with {columns}. After changing the environments, call "
                "forget_running_episodes()."
            )
        if self._finished is None or self._finished.shape[1] != columns:
            self._finished = np.zeros((self.window, columns))
            self._whole_episodes = 0
        self._averages = None
        return self._running

    def _info_leaves(self, env_info: Any) -> list[Any]:
        """The entries of `env_info` in the order of their names."""
        assert self._info_names is not None
        return [env_info[name] for name in self._info_names] if self._is_flat_info else nest.flatten(env_info)

    def _finish(self, running: NDArray[np.float64], last: NDArray[np.bool_]) -> None:
        """Moves whole episodes that ended into the window."""
        assert self._finished is not None
        assert self._info_names is not None
        self.number_of_episodes += int(np.count_nonzero(last))
        rows = running[last & self._is_whole]
        # Whatever follows without a FIRST step belongs to no episode.
        self._is_whole[last] = False
        start = max(self._reward_dim, 1) + 1
        for index, name in enumerate(self._info_names):
            if self._reductions.get(name, "mean") == "mean":
                rows[:, start + index] /= rows[:, start - 1]
        rows = rows[-self.window :]
        slots = (self._whole_episodes + np.arange(len(rows))) % self.window
        self._finished[slots] = rows
        self._whole_episodes += len(rows)
        self._averages = None

    def _window_rows(self) -> NDArray[np.float64]:
        """Returns the [n, columns] rows of the window, oldest first."""
        if self._finished is None:
            return np.zeros((0, max(self._reward_dim, 1) + 1))
        if self._whole_episodes <= self.window:
            return self._finished[: self._whole_episodes].copy()
        return np.roll(self._finished, -(self._whole_episodes % self.window), axis=0)

    def _column_names(self) -> list[str]:
        names = ["AverageReturn"]
        if self._reward_dim:
            names = [f"AverageReturn/{index}" for index in range(self._reward_dim)]
        infos = [f"AverageEnvInfo/{name}" for name in self._info_names or ()]
        return [*names, "AverageEpisodeLength", *infos]

    def _steps_per_second(self) -> float:
        now = time.perf_counter()
        rate = (self.environment_steps - self._clock_steps) / max(now - self._clock, 1e-9)
        self._clock, self._clock_steps = now, self.environment_steps
        return rate


class StepMetric:
    """One of the metrics of an `EpisodeMetrics`, which goes on taking in steps."""

    def __init__(self, metrics: EpisodeMetrics, name: str) -> None:
        """Looks at one metric.

        Args:
            metrics: which has it.
            name: such as "AverageReturn".
        """
        self._metrics = metrics
        self.name = name

    def result(self) -> float:
        """The value now; NaN for an average of which no whole episode has ended."""
        if self.name == "EnvironmentSteps":
            return float(self._metrics.environment_steps)
        if self.name == "NumberOfEpisodes":
            return float(self._metrics.number_of_episodes)
        return self._metrics.averages().get(self.name, float("nan"))

    def __repr__(self) -> str:
        return f"{self.name}: {self.result():g}"


class _Selected(EpisodeMetrics):
    """Metrics of which `result` returns only those whose name begins with `prefix`."""

    prefix = ""

    def result(self) -> dict[str, float]:
        """Returns the metrics selected by name."""
        results = super().result()
        return {name: value for name, value in results.items() if name.startswith(self.prefix)}


@configurable
class AverageReturnMetric(_Selected):
    """Average undiscounted return of the last episodes, per reward dimension."""

    prefix = "AverageReturn"


@configurable
class AverageEpisodeLengthMetric(_Selected):
    """Average length of the last episodes, in steps."""

    prefix = "AverageEpisodeLength"


@configurable
class AverageEnvInfoMetric(_Selected):
    """Average of each entry of `env_info` over the last episodes."""

    prefix = "AverageEnvInfo"


@configurable
class EnvironmentSteps(_Selected):
    """Number of environment steps so far."""

    prefix = "EnvironmentSteps"


@configurable
class NumberOfEpisodes(_Selected):
    """Number of episodes so far."""

    prefix = "NumberOfEpisodes"


@configurable
class AverageDiscountedReturnMetric(_Selected):
    """Average over the steps of an episode of the discounted return from each, per reward dimension.

    With r_l the reward of the l-th action of L, it is sum_l (1 + gamma + ... + gamma^(l - 1)) r_l / L: what the value
    function should be on average. Where a time limit cut the episode, the rewards beyond it are missing.

    Args:
        window: how many of the last episodes the average is over.
        discount: gamma, in [0, 1].
        reward_transformer: applied to the rewards first, such as `RewardClipping()`; None takes them as they are.
    """

    prefix = "AverageDiscountedReturn"

    def __init__(
        self, window: int = 100, discount: float = 0.99, reward_transformer: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        if not 0.0 <= discount <= 1.0:
            raise ValueError(f"discount must be in [0, 1]; got {discount}.")
        super().__init__(window)
        self._discount = discount
        self._reward_transformer = reward_transformer

    def update(self, time_step: TimeStep) -> None:
        """Takes in one step of each environment; see `EpisodeMetrics.update`."""
        reward = _array(time_step.reward)
        if self._reward_transformer is not None:
            reward = _array(self._reward_transformer(torch.as_tensor(reward)))
        dim = reward.shape[1] if reward.ndim == 2 else 1
        is_known = self._running is not None and len(self._running) == len(reward)
        number = self._running[:, dim] + 1.0 if is_known and self._running is not None else np.ones(len(reward))
        gamma = self._discount
        weight = number if gamma == 1.0 else (1.0 - gamma**number) / (1.0 - gamma)
        weight = weight[:, None] if reward.ndim == 2 else weight
        super().update(time_step._replace(reward=weight * reward, env_info=()))

    def update_all(self, time_steps: TimeStep) -> None:
        """Takes in several steps of each environment, [T, B, ...]."""
        for step in range(len(time_steps.step_type)):
            self.update(nest.map_structure(lambda tensor, step=step: tensor[step], time_steps))

    def _finish(self, running: NDArray[np.float64], last: NDArray[np.bool_]) -> None:
        dim = max(self._reward_dim, 1)
        running[last, :dim] /= running[last, dim : dim + 1]
        super()._finish(running, last)

    def _column_names(self) -> list[str]:
        return [name.replace("AverageReturn", "AverageDiscountedReturn") for name in super()._column_names()]


def _total(values: NDArray[Any]) -> NDArray[Any]:
    """The sum over the first dimension, in double precision."""
    total: NDArray[Any] = values[0] if len(values) == 1 else values.sum(0, dtype=np.float64)
    return total


def _array(value: Any) -> NDArray[Any]:
    if isinstance(value, Tensor):
        array: NDArray[Any] = value.detach().cpu().numpy()
        return array
    return np.asarray(value)
