"""`report.html`: what a run did, on one page that needs nothing else."""

import base64
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from html import escape, unescape
from pathlib import Path
from string import Template
from typing import Any

from rein.config.plain_files import PlainFileError, read_json, read_plain
from rein.runtime.scalar_files import ScalarSeries
from rein.training.agent_svg import draw_svg
from rein.training.metric_titles import metric_titles
from rein.training.run_directory import RunDirectory, RunDirectoryError, write_atomically
from rein.training.statistics_of_runs import (
    EVALUATION_RETURN,
    RETURNS,
    TRAINING_RETURN,
    X_AXES,
    Array,
    Band,
    evaluation_interval,
    make_curve,
    read_series,
)
from rein.training.supervised import SupervisedEvaluation, describe_number
from rein.training.svg_chart import bars_of, line_chart, short_number

MAX_VIDEO_BYTES = 4 * 2**20
MAX_PICTURE_BYTES = 16 * 2**20
_MOST_PICTURES = 50
_MOST_CHARTS = 12
_VIDEO_TYPES = {".mp4": "video/mp4", ".gif": "image/gif"}
_MACHINE_FACTS = (
    "processor",
    "cores",
    "memory_gib",
    "accelerator",
    "system",
    "torch_threads",
    "python",
    "rein",
    "commit",
)

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; base-uri 'none'; form-action 'none'"
)
"""The page runs nothing and loads nothing, whatever a run may have put into it."""

_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy"><meta name="viewport" content="width=device-width">
<title>$title</title>
<style>
:root { color-scheme: light dark; --line: light-dark(#e2e8f0, #2b3547); --soft: light-dark(#f1f5f9, #1b2434);
  --page: light-dark(#f8fafc, #0f1623); --card: light-dark(#fff, #151d2c); --text: light-dark(#0f172a, #e5eaf2);
  --quiet: light-dark(#5b6678, #97a3b6); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
  background: var(--page); color: var(--text); }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
.status { color: var(--quiet); } .result { font-size: 1.25rem; margin: .8rem 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr)); gap: 1rem; }
.charts > * { border: 1px solid var(--line); border-radius: .6rem; padding: .5rem; background: var(--card); }
.agent, .wide { overflow-x: auto; } .agent svg { min-width: 48rem; }
svg { width: 100%; height: auto; display: block; } video, img { max-width: 100%; border-radius: .6rem; }
table { border-collapse: collapse; } td, th { text-align: left; vertical-align: top; padding: .25rem 1.2rem .25rem 0; }
th { font-weight: 600; } tr + tr td, tr + tr th { border-top: 1px solid var(--line); }
pre { background: var(--soft); padding: .8rem; border-radius: .6rem; overflow: auto; max-height: 32rem; font-size: 13px; }
summary { cursor: pointer; }
</style></head><body>
<h1>$title</h1>
<div class="status">$status</div>
$result
<h2>Curves</h2>
$curves
$evaluation
$video
$plans
$pictures
$agent
<h2>Run</h2>
$facts
<h2>Again</h2>
<pre>$commands</pre>
<h2>Configuration</h2>
<details><summary>Every value that was used</summary><pre>$config</pre></details>
</body></html>
""")


def write_report(directory: RunDirectory, metrics_per_report: int = _MOST_CHARTS) -> Path:
    """Writes the report of a run, finished or not, and returns its path.

    Args:
        directory: of the run.
        metrics_per_report: charts at most.

    Raises:
        RunDirectoryError: a file of the run is damaged, no regular file, or a link out of the run.
    """
    try:
        page = _page(directory, metrics_per_report)
    except (PlainFileError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise RunDirectoryError(f"{directory.path}: no report can be made of its files: {error!r}") from error
    write_atomically(directory.report, page)
    return directory.report


def _page(directory: RunDirectory, metrics_per_report: int) -> str:
    record = directory.record()
    evaluations = directory.read_evaluations()
    title = f"{record.get('name') or directory.path.name}, seed {record.get('seed', '?')}"
    return _PAGE.substitute(
        policy=_POLICY,
        title=escape(title),
        status=escape(_status(record)),
        result=_result(evaluations),
        curves=_curves(directory, metrics_per_report),
        evaluation=_evaluation(evaluations) + _charts_of_evaluation(directory) + _matches(directory),
        video=_video(directory),
        plans=_plans(directory),
        pictures=_pictures(directory),
        agent=_agent(directory),
        facts=_facts(record),
        commands=escape("\n".join(again(directory, record))),
        config=escape(_operative(directory)),
    )


def _status(record: dict[str, Any]) -> str:
    parts = [str(record.get("status", "unknown"))]
    if record.get("ml_type") == "sl":
        parts.append(f"{record.get('iterations', 0):,} passes over the data")
    elif "env_steps" in record:
        parts.append(f"{record['env_steps']:,} environment steps in {record.get('iterations', 0):,} iterations")
    if "seconds" in record:
        parts.append(f"{record['seconds']:,.0f} s")
    if "started" in record:
        parts.append(f"started {record['started']}")
    return " · ".join(parts)


def _result(evaluations: list[dict[str, Any]]) -> str:
    if not evaluations:
        return ""
    last = evaluations[-1]
    if "numbers" in last:
        return f'<div class="result">Last evaluation: {escape(SupervisedEvaluation.from_json(last).headline)}</div>'
    low, high = last["ci95"]
    kind = "held-out evaluation" if last.get("held_out") else "evaluation"
    return (
        f'<div class="result">Last {kind}: <b>{last["mean_return"]:.4g}</b> mean return '
        f"(95% interval {low:.4g} to {high:.4g}, {int(last['episodes'])} episodes)</div>"
    )


def _curves(directory: RunDirectory, most: int) -> str:
    series, evaluations = read_series(directory), directory.read_evaluations()
    names = _chosen(series)[:most]
    titles = metric_titles(names)
    charts = []
    for name in names:
        axis = "env_steps"
        try:
            x, y = make_curve(series, name, axis, evaluations)
        except ValueError:
            axis = "iterations"
            x, y = make_curve(series, name, axis, evaluations)
        if len(x):
            low, high = _interval(name, evaluations, y)
            band = Band(titles[name], x, y, low, high, 1)
            bars = bars_of(directory.record()) if name in RETURNS else ()
            label = X_AXES[axis]
            charts.append(
                f"<div>{line_chart([band], titles[name], label, '', width=480, height=260, bars=bars, hover=True)}</div>"
            )
    return f'<div class="charts">{"".join(charts)}</div>' if charts else "<p>Nothing was recorded yet.</p>"


def _interval(name: str, evaluations: Sequence[Mapping[str, Any]], y: Array) -> tuple[Array, Array]:
    """Lower and upper ends of the interval around each value; the value itself where there is none."""
    ends = evaluation_interval(evaluations) if name == EVALUATION_RETURN else None
    return ends if ends is not None and len(ends[0]) == len(y) else (y, y)


def _chosen(series: dict[str, ScalarSeries]) -> list[str]:
    """Names of the curves to show: returns first, then other metrics and losses; counters are left out."""
    left_out = ("Metrics/EnvironmentSteps", "Metrics/NumberOfEpisodes")
    first = [name for name in (EVALUATION_RETURN, TRAINING_RETURN) if name in series]
    rest = sorted(name for name in series if name not in left_out and name not in first)
    metrics = [name for name in rest if name.startswith("Metrics/")]
    losses = [name for name in rest if "loss" in name.lower() and name not in metrics]
    others = [name for name in rest if name not in metrics and name not in losses]
    return [*first, *metrics, *losses, *others]


def _evaluation(evaluations: list[dict[str, Any]]) -> str:
    if not evaluations:
        return ""
    if "numbers" in evaluations[-1]:
        return _supervised_evaluation(evaluations)
    rows = [
        (
            f"{one.get('env_steps', 0):,}",
            f"{one['mean_return']:.4g}",
            f"{one['ci95'][0]:.4g} to {one['ci95'][1]:.4g}",
            f"{one['std_return']:.4g}",
            f"{one['mean_length']:.4g}",
            str(one["episodes"]),
            "held-out seeds" if one.get("held_out") else "while training",
        )
        for one in evaluations[-20:]
    ]
    header = ("environment steps", "mean return", "95% interval", "deviation", "mean length", "episodes", "kind")
    return "<h2>Evaluations</h2>" + _table([header, *rows], with_header=True)


def _supervised_evaluation(evaluations: list[dict[str, Any]]) -> str:
    names = list(evaluations[-1]["numbers"])
    titles = [describe_number(name, 0.0)[0] for name in names]
    rows = [
        (
            str(one.get("iterations", "")),
            *(describe_number(n, one["numbers"][n])[1] if n in one["numbers"] else "" for n in names),
            "held-out" if one.get("held_out") else "while training",
        )
        for one in evaluations[-20:]
    ]
    return "<h2>Evaluations</h2>" + _table([("pass", *titles, "kind"), *rows], with_header=True)


def _charts_of_evaluation(directory: RunDirectory) -> str:
    """What `rein evaluate` drew of a run on labelled data."""
    files = sorted(directory.path.glob("evaluation-*.svg"))[:_MOST_CHARTS]
    # As pictures, which run nothing, rather than as a part of the page.
    charts = [_chart_picture(directory, file) for file in files]
    return f'<div class="charts">{"".join(charts)}</div>' if charts else ""


def _matches(directory: RunDirectory) -> str:
    """What `rein evaluate --against` found."""
    if not directory.matches.exists():
        return ""
    content = read_json(directory.matches, directory.path)
    elo = content["elo"]
    rows: list[tuple[str, ...]] = [("agent", "", "", "", "", f"{elo['agent']:.0f}")]
    for name, one in content["against"].items():
        counts = [str(int(one[key])) for key in ("games", "wins", "draws", "losses")]
        rows.append((str(name), *counts, f"{elo[name]:.0f}"))
    header = ("opponent", "games", "won", "drawn", "lost", "Elo")
    return "<h2>Opponents</h2>" + _table([header, *rows], with_header=True)


def _chart_picture(directory: RunDirectory, file: Path) -> str:
    """A chart as a picture, with its title as the text in its place."""
    text = read_plain(file, directory.path, MAX_PICTURE_BYTES).decode(errors="replace")
    title = re.search(r'aria-label="([^"<>]*)"', text)
    shown = "evaluation" if title is None else escape(unescape(title[1]))
    return f'<div><img alt="{shown}" src="{_data(directory, file, "image/svg+xml")}"></div>'


def _video(directory: RunDirectory) -> str:
    if not directory.videos.is_dir():
        return ""
    videos = [path for path in directory.videos.iterdir() if path.suffix in _VIDEO_TYPES]
    if not videos:
        return ""
    newest = max(videos, key=lambda path: path.stat().st_mtime)
    small = sorted(
        (path for path in videos if path.stat().st_size <= MAX_VIDEO_BYTES), key=lambda path: path.stat().st_mtime
    )
    if not small:
        return f"<h2>Video</h2><p>{escape(str(newest))} is too large to be put here.</p>"
    source = _data(directory, small[-1], _VIDEO_TYPES[small[-1].suffix])
    if small[-1].suffix == ".gif":
        return f'<h2>Video</h2><img alt="the policy" src="{source}">'
    return f'<h2>Video</h2><video controls loop muted src="{source}"></video>'


def _pictures(directory: RunDirectory) -> str:
    files = sorted(directory.pictures.glob("*.png"))
    if not files:
        return ""
    shown = [
        f'<p>{escape(file.stem)}</p><img alt="{escape(file.stem)}" src="{_data(directory, file, "image/png")}">'
        for file in files[:_MOST_PICTURES]
    ]
    return "<h2>Representation</h2>" + "".join(shown)


def _plans(directory: RunDirectory) -> str:
    pictures = sorted(directory.plans.glob("*.svg"), key=lambda path: path.stat().st_mtime)
    if not pictures:
        return ""
    source = _data(directory, pictures[-1], "image/svg+xml")
    return f'<h2>Plans</h2><img alt="imagined and real trajectories" src="{source}">'


def _data(directory: RunDirectory, file: Path, kind: str) -> str:
    """A file of the run as the address of its content; links out of the run are refused."""
    return f"data:{kind};base64,{base64.b64encode(read_plain(file, directory.path, MAX_PICTURE_BYTES)).decode()}"


def _agent(directory: RunDirectory) -> str:
    if not directory.agent.exists():
        return ""
    return f'<h2>Agent</h2><div class="agent">{draw_svg(read_json(directory.agent, directory.path))}</div>'


def _facts(record: dict[str, Any]) -> str:
    rows = [(key, record.get(key)) for key in ("algorithm", "parts", "env", "parameters", "device", "seed")]
    rows.append(("command", record.get("command")))
    rows += [(key, record.get(key)) for key in _MACHINE_FACTS]
    packages = ", ".join(f"{name} {version}" for name, version in record.get("packages", {}).items())
    rows.append(("packages", packages or None))
    shown = [(str(key).replace("_", " "), _plain(value)) for key, value in rows if value not in (None, [])]
    return _table(shown)


def _plain(value: Any) -> str:
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return short_number(value) if isinstance(value, float) else json.dumps(value)


def _table(rows: Sequence[tuple[str, ...]], with_header: bool = False) -> str:
    lines = []
    for index, row in enumerate(rows):
        heads = len(row) if with_header and index == 0 else (0 if with_header else 1)
        cells = [f"<th>{escape(cell)}</th>" if i < heads else f"<td>{escape(cell)}</td>" for i, cell in enumerate(row)]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def again(directory: RunDirectory, record: Mapping[str, Any]) -> list[str]:
    """Commands that train the same once more, in a new directory, and look at what this run has learnt."""
    where = shlex.quote(str(directory.path))
    lines = [_without_directory(str(record["command"]))] if record.get("command") else []
    lines.append(f"rein evaluate {where}")
    if record.get("ml_type") != "sl":
        lines.append(f"rein play {where} --output policy.mp4")
    return [*lines, f"tensorboard --logdir {shlex.quote(str(directory.summaries))}"]


def _without_directory(command: str) -> str:
    """A command without --dir, since the directory it names holds a run by now."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    if words[:2] != ["rein", "train"]:
        return command
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--dir":
            next(rest, None)
        elif not word.startswith("--dir="):
            kept.append(word)
    return shlex.join(kept)


def _operative(directory: RunDirectory) -> str:
    path = directory.config / "operative.py"
    return read_plain(path, directory.path).decode(errors="replace") if path.exists() else "# nothing was saved yet"
