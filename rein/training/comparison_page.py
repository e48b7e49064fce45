"""A comparison as a picture or a page: interquartile means with their intervals, the curves, the table, the words."""

from html import escape
from pathlib import Path

import numpy as np

from rein.training.comparison import Comparison
from rein.training.run_directory import RunDirectory, write_atomically
from rein.training.statistics_of_runs import (
    EVALUATION_RETURN,
    TRAINING_RETURN,
    X_AXES,
    Band,
    aggregate,
    read_curve,
    read_series,
)
from rein.training.svg_chart import COLORS, line_chart, nice_ticks, short_number

FORMATS = (".html", ".svg")
_ROW, _TOP, _BOTTOM, _WIDTH, _RIGHT = 34, 34, 40, 720, 24

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
pre {{ overflow-x: auto; }} svg {{ max-width: 100%; height: auto; }}
</style></head><body>
<h1>{title}</h1>
<ul>{words}</ul>
<pre>{table}</pre>
{charts}
</body></html>
"""


def check_format(path: Path) -> None:
    """Raises unless a comparison can be written to a file of that name."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"the file of a comparison must end in {' or '.join(FORMATS)}, not {path.name!r}")


def write_comparison(comparison: Comparison, path: Path) -> Path:
    """Writes a page with everything (.html) or the chart of the intervals (.svg), and returns the path."""
    check_format(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    chart = interval_chart(comparison)
    if path.suffix.lower() == ".svg":
        write_atomically(path, chart.replace('fill="currentColor">', 'fill="currentColor" color="#334155">', 1))
        return path
    title = " against ".join(group.label for group in comparison.groups)
    page = _PAGE.format(
        title=escape(title),
        words="".join(f"<li>{escape(line)}</li>" for line in comparison.words()),
        table=escape(comparison.table()),
        charts="\n".join([chart, *_curves(comparison)]),
    )
    write_atomically(path, page)
    return path


def interval_chart(comparison: Comparison) -> str:
    """An SVG element: for each group its interquartile mean, the 95 % interval, and a dot for each run of a single task."""
    groups = comparison.groups
    left = 24 + 7 * max(len(group.label) for group in groups)
    right, bottom = _WIDTH - _RIGHT, _TOP + _ROW * len(groups)
    dots = [() if comparison.is_normalised else tuple(np.concatenate(list(group.scores.values()))) for group in groups]
    values = [
        value for group, shown in zip(groups, dots, strict=True) for value in (*group.interval, group.iqm, *shown)
    ]
    ticks = nice_ticks(float(min(values)), float(max(values)), 6)
    low, high = ticks[0], ticks[-1]

    def at(value: float) -> float:
        return left + (value - low) / (high - low) * (right - left)

    name = "normalised return" if comparison.is_normalised else "return"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + _BOTTOM}" role="img" '
        f'aria-label="interquartile means" font-family="system-ui, sans-serif" font-size="12" fill="currentColor">',
        f'<text x="{left}" y="18" font-size="14" font-weight="600">Interquartile mean and its 95 % interval</text>',
        f'<text x="{(left + right) / 2:.1f}" y="{bottom + 34}" text-anchor="middle">{name} of the last evaluation</text>',
    ]
    parts += [
        f'<line x1="{at(tick):.1f}" x2="{at(tick):.1f}" y1="{_TOP}" y2="{bottom}" stroke="currentColor" '
        f'stroke-opacity="0.15"/><text x="{at(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{short_number(tick)}</text>'
        for tick in ticks
    ]
    for index, (group, shown) in enumerate(zip(groups, dots, strict=True)):
        color, y = COLORS[index % len(COLORS)], _TOP + _ROW * (index + 0.5)
        start, end = map(at, group.interval)
        parts.append(f'<text x="{left - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(group.label)}</text>')
        parts += [f'<circle cx="{at(x):.1f}" cy="{y:.1f}" r="3" fill="{color}" fill-opacity="0.35"/>' for x in shown]
        parts.append(
            f'<rect x="{start:.1f}" y="{y - 5:.1f}" width="{max(end - start, 1):.1f}" height="10" fill="{color}" '
            f'fill-opacity="0.3"/><rect x="{at(group.iqm) - 1.5:.1f}" y="{y - 9:.1f}" width="3" height="18" fill="{color}"/>'
        )
    return "\n".join([*parts, "</svg>"])


def _curves(comparison: Comparison) -> list[str]:
    """For each task the curves of the groups, with bands over seeds; nothing where a run has recorded none."""
    charts = []
    for task in comparison.tasks:
        bands = [band for group in comparison.groups if (band := _band(group.label, _runs_on(group.runs, task)))]
        if bands:
            charts.append(line_chart(bands, task, X_AXES["env_steps"], "return"))
    return charts


def _runs_on(runs: tuple[RunDirectory, ...], task: str) -> list[RunDirectory]:
    return [run for run in runs if str(run.record().get("env") or "data") == task]


def _band(label: str, runs: list[RunDirectory]) -> Band | None:
    known = [set(read_series(run)) for run in runs]
    for metric in (EVALUATION_RETURN, TRAINING_RETURN):
        if runs and all(metric in names for names in known):
            return aggregate(label, [read_curve(run, metric) for run in runs])
    return None
