"""Numbers out of run directories: curves of one run, and means with confidence bands over runs that differ by seed only."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rein.config.names import did_you_mean
from rein.runtime.scalar_files import SCALARS_FILE, ScalarSeries, read_scalars
from rein.training.run_directory import RunDirectory, RunDirectoryError

X_AXES = {"env_steps": "environment steps", "iterations": "iterations", "seconds": "seconds"}
TRAINING_RETURN = "Metrics/AverageReturn"
EVALUATION_RETURN = "Evaluation/AverageReturn"
RETURNS = (EVALUATION_RETURN, TRAINING_RETURN)
_ENV_STEPS = "Metrics/EnvironmentSteps"

logger = logging.getLogger(__name__)

Array = NDArray[np.float64]


class Curve(NamedTuple):
    """A metric of one run."""

    x: Array
    """[n], increasing."""
    y: Array
    """[n]"""


class Band(NamedTuple):
    """A metric over the runs of a group."""

    label: str
    x: Array
    """[n], increasing."""
    mean: Array
    """[n]"""
    low: Array
    """[n], lower end of the confidence interval of the mean; equal to `mean` for a single run."""
    high: Array
    """[n]"""
    num_runs: int


def find_runs(paths: Iterable[str | Path]) -> list[RunDirectory]:
    """The runs at or below `paths`, sorted by path.

    Raises:
        RunDirectoryError: there is no run at or below one of them.
    """
    found: dict[Path, RunDirectory] = {}
    for path in map(Path, paths):
        if (path / "run.json").exists():
            inside = [path]
        else:
            found_below = sorted(file.parent for file in path.rglob("run.json")) if path.is_dir() else []
            inside = [one for one in found_below if _is_readable(one)]
        if not inside:
            raise RunDirectoryError(f"there is no run at or below {path}: give the directory that `rein train` printed")
        found.update((one.resolve(), RunDirectory.open(one)) for one in inside)
    return list(found.values())


def _is_readable(path: Path) -> bool:
    """Whether what a run says of itself can be read; if not, a warning says so, and the others are not held up."""
    try:
        RunDirectory.open(path).record()
    except RunDirectoryError as error:
        logger.warning("left out: %s", error)
        return False
    return True


def label_of(run: RunDirectory) -> str:
    """What was run, without the seed: runs with the same label belong together."""
    return label_from(run.record(), run.path)


def label_from(record: Mapping[str, Any], path: Path) -> str:
    """What `label_of` says of a run with that run.json."""
    name = record.get("name")
    if not name:
        return path.name
    overrides = record.get("overrides", ())
    return " ".join([str(name), *describe_overrides(map(str, overrides if isinstance(overrides, list) else ()))])


def describe_overrides(overrides: Iterable[str]) -> list[str]:
    """The overrides that tell runs apart, in a fixed order."""
    return sorted(text for text in overrides if not text.startswith("TrainerConfig.random_seed="))


def read_series(run: RunDirectory) -> dict[str, ScalarSeries]:
    """All scalars of a run by name; nothing if it has not written any yet."""
    return read_scalars(run.summaries) if (run.summaries / SCALARS_FILE).exists() else {}


def read_curve(run: RunDirectory, metric: str = TRAINING_RETURN, x_axis: str = "env_steps") -> Curve:
    """One metric of a run.

    Args:
        run: where to read.
        metric: name of a scalar, such as "Metrics/AverageReturn".
        x_axis: one of `X_AXES`; seconds count from the first summary.

    Raises:
        ValueError: the run has no such metric; the message names the nearest.
    """
    if x_axis not in X_AXES:
        raise ValueError(f"x axis {x_axis!r} is unknown: choose one of {', '.join(X_AXES)}")
    series = read_series(run)
    if metric not in series:
        known = ", ".join(sorted(name for name in series if name.startswith(("Metrics/", "Evaluation/")))) or "nothing"
        raise ValueError(f"{run.path} has no metric {metric!r}.{did_you_mean(metric, series)} It has recorded {known}")
    return make_curve(series, metric, x_axis, run.read_evaluations())


def make_curve(
    series: Mapping[str, ScalarSeries], metric: str, x_axis: str, evaluations: Sequence[Mapping[str, Any]]
) -> Curve:
    """One metric out of the scalars of a run.

    Args:
        series: all scalars of the run, by name.
        metric: one of them.
        x_axis: one of `X_AXES`.
        evaluations: of the run; they say at which environment step they were made.

    Raises:
        ValueError: the run has not counted environment steps.
    """
    found = series[metric]
    x = _evaluated_at(evaluations, metric, found) if x_axis == "env_steps" else None
    x = _positions(series, found, x_axis) if x is None else x
    order = np.argsort(x, kind="stable")
    x, y = x[order], found.value[order]
    last_of_each = np.append(x[1:] > x[:-1], True)
    finite = last_of_each & np.isfinite(y)
    return Curve(x[finite], y[finite])


def evaluation_interval(evaluations: Sequence[Mapping[str, Any]]) -> tuple[Array, Array] | None:
    """[n] lower and [n] upper ends of the 95% intervals of the evaluations made while training; None without."""
    ends = [one.get("ci95") for one in _made_while_training(evaluations)]
    if not ends or not all(isinstance(pair, list) and len(pair) == 2 for pair in ends):
        return None
    low, high = np.array(ends, np.float64).T
    return low, high


def _made_while_training(evaluations: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The evaluations that are in the summaries, too; later ones, on held-out seeds, are not."""
    return [one for one in evaluations if "iterations" in one and not one.get("held_out")]


def _evaluated_at(evaluations: Sequence[Mapping[str, Any]], metric: str, found: ScalarSeries) -> Array | None:
    """Environment steps of each evaluation, as the run noted them; None for other metrics, or if they do not match."""
    if not metric.startswith("Evaluation/"):
        return None
    steps = [one["env_steps"] for one in _made_while_training(evaluations) if "env_steps" in one]
    return np.array(steps, np.float64) if len(steps) == len(found.step) else None


def _positions(series: Mapping[str, ScalarSeries], found: ScalarSeries, x_axis: str) -> Array:
    if x_axis == "seconds":
        start = min(one.time[0] for one in series.values())
        return found.time - start
    if x_axis == "iterations":
        return found.step.astype(np.float64)
    if _ENV_STEPS not in series:
        raise ValueError(f"the run has no {_ENV_STEPS}: draw it against iterations instead")
    steps = series[_ENV_STEPS]
    order = np.argsort(steps.step, kind="stable")
    counters, env_steps = steps.step[order].astype(np.float64), steps.value[order]
    positions = np.interp(found.step, counters, env_steps)
    after = found.step > counters[-1]
    if after.any() and counters[-1] > 0:
        # The last evaluation comes after the last summary: go on at the average pace.
        positions[after] = env_steps[-1] * found.step[after] / counters[-1]
    return np.asarray(positions, np.float64)


def smooth(curve: Curve, window: int) -> Curve:
    """The curve with each value replaced by the mean of the last `window` ones."""
    if window < 1:
        raise ValueError(f"a smoothing window of {window} points is impossible: give at least 1")
    sums = np.cumsum(np.insert(curve.y, 0, 0.0))
    ends = np.arange(1, len(curve.y) + 1)
    starts = np.maximum(ends - window, 0)
    return Curve(curve.x, (sums[ends] - sums[starts]) / (ends - starts))


def aggregate(
    label: str, curves: Sequence[Curve], points: int = 200, level: float = 0.95, resamples: int = 1000
) -> Band:
    """Mean of several runs at common positions, with a bootstrap interval over the runs.

    Args:
        label: name of the group.
        curves: one per run; compared where all of them have values.
        points: positions at most.
        level: of the confidence interval.
        resamples: of the bootstrap.
    """
    filled = [curve for curve in curves if len(curve.x)]
    if not filled:
        raise ValueError(f"{label}: none of the {len(curves)} runs has recorded a value yet")
    if len(filled) == 1:
        x, y = filled[0]
        return Band(label, x, y, y, y, 1)
    start, end = max(curve.x[0] for curve in filled), min(curve.x[-1] for curve in filled)
    if end < start:
        raise ValueError(f"{label}: its runs have no common range, one ends at {end:g} and another begins at {start:g}")
    x = np.linspace(start, end, min(points, max(len(curve.x) for curve in filled)))
    values = np.stack([np.interp(x, curve.x, curve.y) for curve in filled])
    low, high = bootstrap_interval(values, level, resamples)
    return Band(label, x, values.mean(axis=0), low, high, len(filled))


def bootstrap_interval(
    values: NDArray[np.float64], level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> tuple[Array, Array]:
    """Percentile bootstrap of the mean over the first axis.

    Args:
        values: [N, ...], N runs.
        level: of the interval.
        resamples: drawn with replacement.
        seed: the same numbers give the same interval.

    Returns:
        Lower and upper ends, [...].
    """
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(values), size=(resamples, len(values)))
    means = np.stack([values[rows].mean(axis=0) for rows in chosen])
    tail = 50 * (1 - level)
    low, high = np.percentile(means, [tail, 100 - tail], axis=0)
    return low, high


def interquartile_mean(values: Array) -> float:
    """Mean of the middle half of all values."""
    ordered = np.sort(values, axis=None)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def stratified_interval(strata: Sequence[Array], level: float = 0.95, resamples: int = 2000) -> tuple[float, float]:
    """Bootstrap interval of the interquartile mean of all values, drawn anew within each stratum.

    Args:
        strata: values of each, such as the episode returns of a seed, or the scores of the runs on a task.
        level: of the interval.
        resamples: number of draws.
    """
    rng = np.random.default_rng(0)
    draws = [
        interquartile_mean(np.concatenate([rng.choice(one, len(one)) for one in strata])) for _ in range(resamples)
    ]
    tail = 50 * (1 - level)
    low, high = np.percentile(draws, [tail, 100 - tail])
    return float(low), float(high)


def group_bands(
    runs: Sequence[RunDirectory], metric: str = TRAINING_RETURN, x_axis: str = "env_steps", window: int = 1
) -> list[Band]:
    """One band for each group of runs that differ by seed only.

    Args:
        runs: any runs.
        metric: name of a scalar.
        x_axis: one of `X_AXES`.
        window: smooth over so many points.
    """
    groups: dict[str, list[Curve]] = {}
    for run in runs:
        groups.setdefault(label_of(run), []).append(smooth(read_curve(run, metric, x_axis), window))
    short = distinct_labels(list(groups))
    return [aggregate(short[label], curves) for label, curves in groups.items()]


def distinct_labels(labels: Sequence[str]) -> dict[str, str]:
    """For each label what it does not share with all others, or all of it where nothing else would be left."""
    words = {label: label.split(" ") for label in labels}
    shared = set.intersection(*(set(parts) for parts in words.values())) if len(words) > 1 else set()
    return {label: " ".join(one for one in parts if one not in shared) or label for label, parts in words.items()}


def final_score(run: RunDirectory) -> float | None:
    """The mean return of the last evaluation, or else of the last training episodes; None if there is neither."""
    evaluations = run.read_evaluations()
    if evaluations:
        return float(evaluations[-1]["mean_return"])
    series: Any = read_series(run).get(TRAINING_RETURN)
    return None if series is None else float(series.value[-1])
