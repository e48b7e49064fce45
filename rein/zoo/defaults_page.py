"""The page of the defaults: a table of pairs, and what they come to."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean, variance
from typing import Any, NamedTuple

from rein.training.run_directory import write_atomically
from rein.zoo.bars import number_text
from rein.zoo.defaults import FIGURES, LEFT_OUT, Task, pairs, read_figures

_T_QUANTILES = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Of Student's distribution, for two-sided intervals of 95 %, by degrees of freedom from 1."""
_HEAD = """# Defaults

Made by `rein verify --defaults` from the figures in `docs/results/defaults/`; not edited by hand. Each pair is trained by
`rein train --algorithm A --env E TrainerConfig.num_env_steps=N TrainerConfig.evaluate=False`, with nothing else set
(evaluations on the way would only watch); beside it the algorithm of that name of Stable-Baselines3 with nothing set
(`benchmarks/sb3_defaults.py`), for the same number of steps, on the same seeds. Scores are mean returns of the deterministic
policy over {episodes} held-out episodes, in brackets seed by seed.

"Behind" means that the interval of 95 % of the difference of the means (Welch's, with the smaller number of degrees of
freedom) lies below zero; "fails" that theirs reaches what counts as solved on average, and ours does not.

{summary}
"""
_TABLE = """
| algorithm | task | steps | solved from | Rein | Stable-Baselines3 | difference, 95 % | verdict |
|---|---|---|---|---|---|---|---|
"""


class Comparison(NamedTuple):
    """Two libraries on one pair."""

    difference: float
    half_width: float
    """Of the interval of 95 %."""
    verdict: str
    """"level", "ahead", "behind" or "fails"."""


def compare(ours: list[float], theirs: list[float], solved: float) -> Comparison:
    """Whether our scores, one for each seed, are at or above theirs within the interval of the difference.

    Args:
        ours: of each seed.
        theirs: of each seed.
        solved: score from which the task is solved.
    """
    difference, width = mean(ours) - mean(theirs), math.inf
    if min(len(ours), len(theirs)) > 1:
        error = math.sqrt(variance(ours) / len(ours) + variance(theirs) / len(theirs))
        width = _T_QUANTILES[min(len(ours), len(theirs), len(_T_QUANTILES) + 1) - 2] * error
    if mean(theirs) >= solved > mean(ours):
        verdict = "fails"
    elif difference < -width:
        verdict = "behind"
    else:
        verdict = "ahead" if difference > width else "level"
    return Comparison(difference, width, verdict)


def defaults_page(directory: Path = FIGURES) -> str:
    """The text of docs/defaults.md."""
    ours, theirs = read_figures("rein", directory), read_figures("stable_baselines3", directory)
    rows, verdicts = [], []
    for pair in pairs():
        if pair.name in ours:
            row, verdict = _row(pair.task, ours[pair.name], theirs.get(pair.name))
            rows.append(row)
            verdicts += [verdict] if verdict else []
    missing = Counter(pair.algorithm for pair in pairs() if pair.name not in ours)
    good = sum(one in ("level", "ahead") for one in verdicts)
    summary = (
        f"{len(rows)} pairs; both libraries in {len(verdicts)}: at or above within the interval in {good} of them, "
    )
    summary += (
        f"behind in {verdicts.count('behind')}, and in {verdicts.count('fails')} ours fails a task that theirs solves."
    )
    if missing:
        listed = ", ".join(f"{name} ({number})" for name, number in missing.items())
        summary += f" {missing.total()} pairs have not been run yet: {listed}."
    left_out = "\n".join(f"- `{name}`: {reason}." for name, reason in LEFT_OUT.items())
    episodes = sorted({one["episodes"] for one in ours.values()}) or [100]
    page = _HEAD.format(summary=summary, episodes=", ".join(map(str, episodes))) + _TABLE + "".join(rows)
    return f"{page}\n## Left out\n\n{left_out}\n{_versions(ours, theirs)}"


def write_figures(library: str, figures: Iterable[Mapping[str, Any]], directory: Path = FIGURES) -> None:
    """Adds figures to those of a library, in the place of older ones of the same pair, and makes the page anew."""
    kept = read_figures(library, directory) | {f"{one['algorithm']}/{one['env']}": dict(one) for one in figures}
    directory.mkdir(parents=True, exist_ok=True)
    ordered = [kept[name] for name in sorted(kept)]
    write_atomically(directory / f"{library}.json", json.dumps(ordered, indent=1) + "\n")
    write_atomically(directory.parent.parent / "defaults.md", defaults_page(directory))


def _row(task: Task, ours: dict[str, Any], theirs: dict[str, Any] | None) -> tuple[str, str]:
    cells = [ours["algorithm"], task.env, f"{ours['env_steps']:,}", number_text(task.solved), _scores_text(ours)]
    if theirs is None:
        return "| " + " | ".join([*cells, "", "", ""]) + " |\n", ""
    found = compare(_scores(ours), _scores(theirs), task.solved)
    width = "" if math.isinf(found.half_width) else f" ± {number_text(found.half_width)}"
    bold = f"**{found.verdict}**" if found.verdict in ("behind", "fails") else found.verdict
    cells += [_scores_text(theirs), f"{number_text(found.difference)}{width}", bold]
    return "| " + " | ".join(cells) + " |\n", found.verdict


def _scores(figures: dict[str, Any]) -> list[float]:
    return [seed["mean_return"] for seed in figures["seeds"]]


def _scores_text(figures: dict[str, Any]) -> str:
    return f"{number_text(mean(_scores(figures)))} ({', '.join(map(number_text, _scores(figures)))})"


def _versions(*figures: dict[str, dict[str, Any]]) -> str:
    found = sorted({", ".join(f"{k} {v}" for k, v in one["versions"].items()) for by in figures for one in by.values()})
    return "\n## Versions\n\n" + "".join(f"- {one}\n" for one in found) if found else ""
