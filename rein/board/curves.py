"""Curves for the browser: runs that differ by seed only in one band, and never more points than a screen can show."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from rein.board.evidence import bars_of
from rein.board.shelf import ODD, ShelvedRun
from rein.training.metric_titles import metric_title, metric_titles
from rein.training.run_directory import RunDirectoryError
from rein.training.statistics_of_runs import (
    EVALUATION_RETURN,
    TRAINING_RETURN,
    X_AXES,
    Array,
    Band,
    Curve,
    aggregate,
    distinct_labels,
    evaluation_interval,
    label_from,
    make_curve,
    smooth,
)

MOST_POINTS = 1_000
_MOST_SEED_LINES = 10
_SEED_POINTS = 200
_COUNTERS = ("Metrics/EnvironmentSteps", "Metrics/NumberOfEpisodes")


class CurveRequest(NamedTuple):
    """What to draw."""

    metric: str = TRAINING_RETURN
    x_axis: str = "env_steps"
    window: int = 1
    """Smooth over so many points."""
    points: int = MOST_POINTS
    is_grouped: bool = True
    """Whether runs that differ by seed only become one band."""


def list_metrics(runs: Sequence[ShelvedRun]) -> list[dict[str, str]]:
    """Metrics that any of the runs has, those that matter most first, with their titles."""
    names = {name for run in runs for name in run.series()}
    titles = metric_titles(names)
    return [{"name": name, "title": titles[name]} for name in sorted(names, key=_rank)]


def _rank(name: str) -> tuple[int, str]:
    orders = (
        name == EVALUATION_RETURN,
        name == TRAINING_RETURN,
        name.startswith(("Evaluation/", "eval/")),
        name.startswith("Metrics/") and name not in _COUNTERS,
        "loss" in name.lower(),
        name not in _COUNTERS,
        True,
    )
    return orders.index(True), name


def draw(runs: Sequence[ShelvedRun], request: CurveRequest) -> dict[str, Any]:
    """Bands of a metric, ready for JSON.

    Args:
        runs: those without the metric are left out.
        request: what to draw.

    Raises:
        ValueError: the axis or the window is impossible.
    """
    if request.x_axis not in X_AXES:
        raise ValueError(f"x axis {request.x_axis!r} is unknown: choose one of {', '.join(X_AXES)}")
    groups: dict[str, list[ShelvedRun]] = {}
    for run in runs:
        label = _label(run, request.is_grouped)
        if label is not None:
            groups.setdefault(label, []).append(run)
    short = distinct_labels(list(groups)) if groups else {}
    bands = []
    for label, members in groups.items():
        try:
            drawn = _group(tuple(members), request, tuple(run.stamp() for run in members))
        except ODD:
            continue
        if drawn is not None:
            bands.append({"label": short[label], "whole_label": label, **drawn})
    shown = {band["runs"][0] for band in bands}
    return {
        "title": metric_title(request.metric),
        "x_label": X_AXES[request.x_axis],
        "bars": bars_of([run for run in runs if run.id in shown], request.metric),
        "bands": bands,
    }


def _label(run: ShelvedRun, is_grouped: bool) -> str | None:
    try:
        record = run.record()
    except ODD:
        return None
    return label_from(record, run.directory.path) if is_grouped else run.place


@lru_cache(maxsize=500)
def _group(runs: tuple[ShelvedRun, ...], request: CurveRequest, stamps: Any) -> dict[str, Any] | None:
    """The band of some runs; `stamps` only tells when it must be made anew."""
    curves = {run.id: curve for run in runs if (curve := _curve(run, request)) is not None}
    if not curves:
        return None
    points = max(2, min(request.points, MOST_POINTS))
    try:
        band = aggregate("", list(curves.values()), points=min(points, 200))
    except ValueError:  # They have no common range yet.
        longest = max(curves.values(), key=lambda curve: len(curve.x))
        band = Band("", *longest, longest.y, longest.y, 1)
    seeds = []
    if 1 < len(curves) <= _MOST_SEED_LINES:
        seeds = [_numbers(*thin(*curve, min(points, _SEED_POINTS))) for curve in curves.values()]
    if band.num_runs == 1:
        interval = _evaluation_interval(runs[0], request) if len(runs) == 1 else None
        x, mean = thin(band.x, band.mean, points)
        low, high = interval if interval is not None and len(x) == len(band.x) else (None, None)
    else:
        x, mean, low, high = band.x, band.mean, band.low, band.high
    return {
        "runs": list(curves),
        "x": _list(x, 9),
        "mean": _list(mean),
        "low": None if low is None else _list(low),
        "high": None if high is None else _list(high),
        "seeds": seeds,
    }


def _curve(run: ShelvedRun, request: CurveRequest) -> Curve | None:
    series = run.series()
    if request.metric not in series:
        return None
    try:
        curve = make_curve(series, request.metric, request.x_axis, run.evaluations())
    except (ValueError, RunDirectoryError):
        if request.x_axis != "env_steps":
            return None
        curve = make_curve(series, request.metric, "iterations", [])
    return smooth(curve, request.window) if len(curve.x) else None


def _evaluation_interval(run: ShelvedRun, request: CurveRequest) -> tuple[Array, Array] | None:
    """The 95% interval of each evaluation of a single run."""
    if request.metric != EVALUATION_RETURN or request.window != 1:
        return None
    ends = evaluation_interval(run.evaluations())
    curve = _curve(run, request)
    return ends if ends is not None and curve is not None and len(ends[0]) == len(curve.x) else None


def thin(x: Array, y: Array, points: int) -> tuple[Array, Array]:
    """At most about so many points of a curve: the lowest and highest of each stretch, and both ends.

    Args:
        x: [n], increasing.
        y: [n]
        points: at most, if not less than 4.
    """
    if len(x) <= max(points, 4):
        return x, y
    edges = np.linspace(1, len(x) - 1, max(1, (points - 2) // 2) + 1).round().astype(int)
    kept = [0, len(x) - 1]
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if end > start:
            stretch = y[start:end]
            kept += [start + int(stretch.argmin()), start + int(stretch.argmax())]
    chosen = np.unique(kept)
    return x[chosen], y[chosen]


def _numbers(x: Array, y: Array) -> dict[str, list[float]]:
    return {"x": _list(x, 9), "y": _list(y)}


def _list(values: Array, digits: int = 6) -> list[float]:
    """Numbers with as many digits as a chart can show."""
    return [float(f"{value:.{digits}g}") for value in values.tolist()]
