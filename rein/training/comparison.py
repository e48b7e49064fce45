"""Whether some runs are better than others, with honest uncertainty over seeds.

Agarwal et al. (2021), "Deep reinforcement learning at the edge of the statistical precipice": the interquartile mean with
a stratified bootstrap interval, and the probability that a run of one group beats one of another.
"""

import os
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rein.training.run_directory import RunDirectory
from rein.training.statistics_of_runs import (
    Array,
    distinct_labels,
    final_score,
    find_runs,
    interquartile_mean,
    label_of,
    stratified_interval,
)

FEW_RUNS = 5
"""Fewer runs than this per task make intervals that are too narrow."""
_RESAMPLES = 2000

Source = str | os.PathLike[str]


class Group(NamedTuple):
    """Runs that are alike but for seed and task."""

    label: str
    runs: tuple[RunDirectory, ...]
    scores: dict[str, Array]
    """For each task, the last evaluation of each run."""
    iqm: float
    """Interquartile mean of all scores; of normalised ones if there are several tasks."""
    interval: tuple[float, float]
    """95 % of `iqm`, runs drawn anew within each task."""

    @property
    def num_runs(self) -> int:
        """Number of runs."""
        return len(self.runs)


class Pair(NamedTuple):
    """One group beside another."""

    first: str
    second: str
    probability: float
    """That a run of the first scores above one of the second on a task of both; ties count half."""
    interval: tuple[float, float]
    """95 %."""

    @property
    def verdict(self) -> str:
        """The comparison in words."""
        low, high = self.interval
        ahead, behind, chance = self.first, self.second, self.probability
        if high < 0.5:
            ahead, behind, chance, low, high = self.second, self.first, 1 - chance, 1 - high, 1 - low
        span = f"a run of {ahead} beats one of {behind} with probability {chance:.2f} (95 %: {low:.2f} to {high:.2f})"
        if low > 0.5:
            return f"{ahead} is better than {behind}: {span}"
        return f"{ahead} and {behind} cannot be told apart: {span}"


class Comparison(NamedTuple):
    """Groups of runs side by side."""

    groups: tuple[Group, ...]
    """Best first."""
    pairs: tuple[Pair, ...]
    tasks: tuple[str, ...]

    @property
    def is_normalised(self) -> bool:
        """Whether scores of several tasks were put on one scale."""
        return len(self.tasks) > 1

    def words(self) -> list[str]:
        """What can be said, and what should be doubted, a line each."""
        lines = [pair.verdict for pair in self.pairs]
        if self.is_normalised:
            lines.append(
                f"scores of {len(self.tasks)} tasks are normalised: on each, 0 is the lowest run of all and 1 the highest"
            )
        few = [group.label for group in self.groups if min(map(len, group.scores.values())) < FEW_RUNS]
        if few:
            lines.append(
                f"{', '.join(few)}: fewer than {FEW_RUNS} seeds per task, so the intervals are too narrow: train more"
            )
        return lines

    def table(self) -> str:
        """A row for each group."""
        header = ("runs", "seeds", "mean", "lowest", "highest", "IQM", "95 %")
        rows = [header, *(self._row(group) for group in self.groups)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(header))]

        def line(row: tuple[str, ...]) -> str:
            numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            return "  ".join([row[0].ljust(widths[0]), *numbers])

        return "\n".join(map(line, rows))

    def _row(self, group: Group) -> tuple[str, ...]:
        low, high = group.interval
        scores = np.concatenate(list(group.scores.values()))
        # Raw scores of different tasks have no common mean.
        raw = (
            ("", "", "")
            if self.is_normalised
            else tuple(f"{x:.4g}" for x in (scores.mean(), scores.min(), scores.max()))
        )
        return (group.label, str(group.num_runs), *raw, f"{group.iqm:.4g}", f"{low:.4g} to {high:.4g}")

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        groups = [
            {
                "label": group.label,
                "runs": [str(run.path) for run in group.runs],
                "scores": {task: scores.tolist() for task, scores in group.scores.items()},
                "iqm": group.iqm,
                "interval": list(group.interval),
            }
            for group in self.groups
        ]
        pairs = [{**pair._asdict(), "interval": list(pair.interval), "verdict": pair.verdict} for pair in self.pairs]
        return {"groups": groups, "pairs": pairs, "tasks": list(self.tasks), "words": self.words()}

    def __str__(self) -> str:
        return "\n".join([self.table(), "", *self.words()])


def compare(sources: Sequence[Source] | Mapping[str, Source | Sequence[Source]]) -> Comparison:
    """Compares the scores of runs: the last evaluation of each, or else the last training return.

    Args:
        sources: runs, or folders with runs in them. Runs that differ by seed only belong together; so do all runs of a folder
            that differ by seed and task only. A mapping gives groups by name.

    Raises:
        ValueError: there are not two groups with a common task, or a run has no score yet.
    """
    named = _named_groups(sources) if isinstance(sources, Mapping) else _found_groups(sources)
    if len(named) < 2:
        only = next(iter(named), "nothing")
        raise ValueError(f"there is only {only} to compare: give runs that differ by more than their seed")
    scores = {label: _scores(runs) for label, runs in named.items()}
    tasks = sorted({task for by_task in scores.values() for task in by_task})
    scaled = _normalised(scores, tasks) if len(tasks) > 1 else scores
    groups = [
        Group(label, tuple(runs), scores[label], *_centre(list(scaled[label].values())))
        for label, runs in named.items()
    ]
    groups.sort(key=lambda group: -group.iqm)
    pairs = tuple(_pair(one, other) for one, other in combinations(groups, 2))
    return Comparison(tuple(groups), pairs, tuple(tasks))


def probability_of_improvement(first: Array, second: Array) -> float:
    """Share of the pairs of scores, one of each, in which that of the first is higher; ties count half."""
    return float(_improvement(first, second))


# Groups --------------------------------------------------------------------------------------------------------------


def _named_groups(sources: Mapping[str, Source | Sequence[Source]]) -> dict[str, list[RunDirectory]]:
    lists = {name: [paths] if isinstance(paths, str | os.PathLike) else paths for name, paths in sources.items()}
    return {name: find_runs(map(Path, paths)) for name, paths in lists.items()}


def _found_groups(sources: Sequence[Source]) -> dict[str, list[RunDirectory]]:
    groups: dict[tuple[str, str], list[RunDirectory]] = {}
    for source in sources:
        runs = find_runs([Path(source)])
        folder = Path(source).resolve().name if len(runs) > 1 else ""
        labels = {label_of(run) for run in runs}
        is_one = len({(label_of(run), _task(run)) for run in runs}) == len({_task(run) for run in runs})
        for run in runs:
            label = folder if len(labels) > 1 and is_one else label_of(run)
            groups.setdefault((folder, label), []).append(run)
    labels_seen = [label for _, label in groups]
    if len(set(labels_seen)) == len(labels_seen):
        short = distinct_labels(labels_seen)
        return {short[label]: runs for (_, label), runs in groups.items()}
    names = [f"{folder} {label}".strip() for folder, label in groups]
    short = distinct_labels(names)
    return {short[name]: runs for name, runs in zip(names, groups.values(), strict=True)}


def _task(run: RunDirectory) -> str:
    return str(run.record().get("env") or "data")


def _scores(runs: Sequence[RunDirectory]) -> dict[str, Array]:
    found: dict[str, list[float]] = {}
    for run in runs:
        score = final_score(run)
        if score is None:
            raise ValueError(f"{run.path} has no return yet: let it train longer, or leave it out")
        found.setdefault(_task(run), []).append(score)
    return {task: np.array(found[task]) for task in sorted(found)}


def _normalised(scores: Mapping[str, Mapping[str, Array]], tasks: Sequence[str]) -> dict[str, dict[str, Array]]:
    """Scores with 0 for the lowest run on a task and 1 for the highest."""
    everyone = {
        task: np.concatenate([by_task[task] for by_task in scores.values() if task in by_task]) for task in tasks
    }
    scale = {task: (values.min(), np.ptp(values) or 1.0) for task, values in everyone.items()}
    return {
        label: {task: (values - scale[task][0]) / scale[task][1] for task, values in by_task.items()}
        for label, by_task in scores.items()
    }


# Numbers -------------------------------------------------------------------------------------------------------------


def _centre(strata: list[Array]) -> tuple[float, tuple[float, float]]:
    return interquartile_mean(np.concatenate(strata)), stratified_interval(strata, resamples=_RESAMPLES)


def _pair(one: Group, other: Group) -> Pair:
    tasks = [task for task in one.scores if task in other.scores]
    if not tasks:
        raise ValueError(f"{one.label} and {other.label} have no task in common: compare runs of the same environments")
    rng = np.random.default_rng(0)
    draws = [_improvement(_redrawn(one.scores[task], rng), _redrawn(other.scores[task], rng)) for task in tasks]
    low, high = np.percentile(np.mean(draws, axis=0), [2.5, 97.5])
    chance = np.mean([probability_of_improvement(one.scores[task], other.scores[task]) for task in tasks])
    return Pair(one.label, other.label, float(chance), (float(low), float(high)))


def _improvement(first: Array, second: Array) -> Array:
    """[...] from scores [..., n] and [..., m]."""
    above: Array = np.sign(first[..., :, None] - second[..., None, :]).mean(axis=(-2, -1))
    return (above + 1) / 2


def _redrawn(values: Array, rng: np.random.Generator) -> Array:
    """[resamples, n] of [n]."""
    return rng.choice(values, (_RESAMPLES, len(values)))
