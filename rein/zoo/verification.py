"""Verification: an entry of the zoo is trained from scratch with several seeds, evaluated, and compared with its bar.

A verification that is interrupted goes on where it was.
"""

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rein.replay.datasets import DataSet
from rein.training.hardware import describe_machine
from rein.training.run_directory import RunDirectory
from rein.training.statistics_of_runs import (
    EVALUATION_RETURN,
    Curve,
    interquartile_mean,
    read_curve,
    read_series,
    stratified_interval,
)
from rein.zoo import ZooEntry, task_entries
from rein.zoo.bars import is_met
from rein.zoo.processes import command_line, one_thread
from rein.zoo.recordings import make_recordings, recordings_of
from rein.zoo.records import settings_facts
from rein.zoo.side_by_side import Job, train_side_by_side
from rein.zoo.trained_settings import TrainedSettings, trained_settings

_CURVE_POINTS = 60
_SUPERVISED_CURVES = ("train_epoch/neglogprob", "train_epoch/loss")
"""Of runs from labelled data, and of runs from examples alone."""


def verify(
    entry: ZooEntry,
    seeds: Sequence[int],
    work: Path,
    episodes: int = 100,
    at_once: int = 2,
    budget_seconds: float = float("inf"),
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Trains and evaluates an entry; returns its record.

    Args:
        entry: what to verify.
        seeds: one run each.
        work: directory for the runs; those that are there already are gone on with.
        episodes: held-out episodes per seed.
        at_once: runs side by side.
        budget_seconds: after which running seeds are told to save and stop.
        say: told what happens.
    """
    begun = time.monotonic()
    settings = trained_settings(entry.path)
    data = make_recordings(entry, work / "recordings", say) if recordings_of(entry) else None
    work = work / entry.name / settings.hash
    jobs = [_job(entry, seed, work, data) for seed in seeds]
    train_side_by_side(jobs, at_once, budget_seconds - (time.monotonic() - begun), say)
    results = [_result(work, seed, episodes, entry.facts.get("against", {})) for seed in seeds]
    record = _record(entry, settings, results, episodes)
    return record if data is None else {**record, "recordings": DataSet.open(data).describe()["sources"]}


def _job(entry: ZooEntry, seed: int, work: Path, data: Path | None) -> Job:
    target = entry.name if task_entries().get(entry.name) == entry else str(entry.path)
    words = [target, "--seed", str(seed), *([] if data is None else ["--data", str(data)])]
    return Job(f"seed {seed} of {entry.name}", _path(work, seed), words, f"rein verify {entry.name}")


def _result(work: Path, seed: int, episodes: int, opponents: Mapping[str, Any]) -> dict[str, Any]:
    """Score and curve of a finished run."""
    path = _path(work, seed)
    evaluation = evaluate_run(path, episodes)
    directory = RunDirectory.open(path)
    record = directory.record()
    if record.get("ml_type") == "sl":
        numbers = {key: value for key, value in evaluation.items() if isinstance(value, float)}
        known = read_series(directory)
        metric = next((name for name in _SUPERVISED_CURVES if name in known), _SUPERVISED_CURVES[0])
        curve = read_curve(directory, metric, "iterations")
        return {"seed": seed, **numbers, "seconds": record["seconds"], "curve": _points(curve)}
    # A run from data alone takes no steps: its curve is that of its evaluations.
    takes_steps = bool(record.get("env_steps"))
    curve = read_curve(directory) if takes_steps else read_curve(directory, EVALUATION_RETURN, "iterations")
    success = {key: evaluation[key] for key in ("success_rate",) if key in evaluation}
    if opponents:
        words = [word for name in opponents for word in ("--against", name)]
        matches = evaluate_run(path, episodes, *words)
        against = matches["against"]
        success = {"share_of_bars": _share_of_bars(against, opponents), "against": against, "elo": matches["elo"]}
    return {
        "seed": seed,
        "mean_return": evaluation["mean_return"],
        "returns": evaluation["returns"],
        **success,
        "seconds": record["seconds"],
        "env_steps": record["env_steps"],
        "curve": _points(curve),
    }


def evaluate_run(path: Path, episodes: int, *words: str) -> dict[str, Any]:
    """What `rein evaluate` finds out about a run; `words` are more arguments of it."""
    command = command_line("evaluate", str(path), "--episodes", str(episodes), *words, "--json")
    output = subprocess.run(command, capture_output=True, check=True, env=one_thread()).stdout
    found: dict[str, Any] = json.loads(output)
    return found


def _share_of_bars(against: Mapping[str, Mapping[str, float]], bars: Mapping[str, Mapping[str, float]]) -> float:
    """The smallest of what was reached against an opponent, as a share of what is asked there."""
    return min(against[name][rate] / bar for name, asked in bars.items() for rate, bar in asked.items())


def _points(curve: Curve) -> list[list[float]]:
    chosen = np.unique(np.linspace(0, len(curve.x) - 1, min(_CURVE_POINTS, len(curve.x))).astype(int))
    return [[int(curve.x[i]), round(float(curve.y[i]), 4)] for i in chosen]


def _record(entry: ZooEntry, settings: TrainedSettings, results: list[dict[str, Any]], episodes: int) -> dict[str, Any]:
    scores = [_measured(entry, result) for result in results]
    returns = [
        np.array(result.pop("returns", [score]), dtype=np.float64)
        for result, score in zip(results, scores, strict=True)
    ]
    returns = [one.sum(axis=1) if one.ndim == 2 else one for one in returns]
    length = {"epochs": entry.facts["epochs"]} if entry.is_supervised else {"env_steps": entry.facts["env_steps"]}
    machine = describe_machine()
    return {
        "name": entry.name,
        "algorithm": entry.algorithm,
        "env": entry.facts["data"] if entry.is_supervised else entry.env,
        **length,
        "measure": entry.facts.get("measure", "mean_return"),
        "bar": entry.facts.get("bar"),
        "at_most": entry.facts.get("at_most"),
        "in_every_seed": bool(entry.facts.get("in_every_seed", False)),
        "reference": entry.facts.get("reference"),
        "score": float(np.mean(scores)),
        "met": is_met(entry.facts, scores),
        "iqm": interquartile_mean(np.concatenate(returns)),
        "iqm_interval": list(stratified_interval(returns)),
        "episodes": episodes,
        "seeds": results,
        **settings_facts(entry, settings),
        "version": machine["rein"],
        "commit": machine["commit"],
        "date": time.strftime("%Y-%m-%d"),
        "hardware": {key: machine[key] for key in ("processor", "cores", "memory_gib", "python", "packages")},
        "command": f"rein verify {entry.name} --seeds {len(results)} --episodes {episodes}",
    }


def _measured(entry: ZooEntry, result: dict[str, Any]) -> float:
    """What the bar of an entry is about, of one seed."""
    measure = entry.facts.get("measure", "mean_return")
    known = ("mean_return", "success_rate", "share_of_bars")
    if not entry.is_supervised and measure not in known:
        raise ValueError(f"{entry.name}: measure is {measure!r} in ENTRY: choose one of {', '.join(known)}")
    if entry.is_supervised and measure not in result:
        raise ValueError(f"{entry.name}: measure is {measure!r} in ENTRY, but its evaluation gives {sorted(result)}")
    if measure == "share_of_bars" and measure not in result:
        raise ValueError(
            f"{entry.name} is measured by games, but ENTRY has no 'against': name opponents and bars there"
        )
    if measure not in result:
        raise ValueError(f"{entry.name} is measured by its success, but {entry.env} has no env_info['is_success']")
    return float(result[measure])


def _path(work: Path, seed: int) -> Path:
    return work / f"seed-{seed}"
