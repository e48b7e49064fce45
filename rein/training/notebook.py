"""Runs in a notebook: one output that is brought up to date while training goes on, and agents that show themselves.

Nothing here needs ipywidgets.
"""

import base64
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from rein.training.run_directory import RunDirectory
from rein.training.statistics_of_runs import EVALUATION_RETURN, TRAINING_RETURN, X_AXES, Band, make_curve, read_series
from rein.training.svg_chart import bars_of, line_chart

_MOST_LINES = 5
_MOST_VIDEO_BYTES = 4 * 2**20
_VIDEO_TYPES = {".mp4": "video/mp4", ".gif": "image/gif"}


class LiveOutput:
    """One output of a cell, with a bar and some lines of text."""

    def __init__(self) -> None:
        from IPython import display as shown

        self._lines: list[str] = []
        self._fraction, self._text = 0.0, ""
        display: Any = shown.display
        self._handle = display(self._content(), raw=True, display_id=True)

    def show(self, fraction: float, text: str) -> None:
        """Moves the bar; `text` stands beside it."""
        self._fraction, self._text = fraction, text
        self._handle.update(self._content(), raw=True)

    def add_line(self, line: str) -> None:
        """Adds a line below; only the last ones stay."""
        self._lines = [*self._lines, line][-_MOST_LINES:]
        self._handle.update(self._content(), raw=True)

    def _content(self) -> dict[str, str]:
        lines = [f"{self._fraction:4.0%}  {self._text}", *self._lines]
        below = "".join(f"<div>{escape(line)}</div>" for line in self._lines)
        bar = f'<progress max="1" value="{self._fraction:.4f}" style="width:12em"></progress>'
        html = f"<div>{bar} {self._fraction:.0%} {escape(self._text)}{below}</div>"
        return {"text/plain": "\n".join(lines), "text/html": html}


class Picture:
    """A chart that notebooks show, and that can be written to a file."""

    def __init__(self, svg: str) -> None:
        """Keeps the text of an SVG element."""
        self.svg = svg

    def save(self, path: str | Path) -> Path:
        """Writes it as .svg."""
        target = Path(path)
        if target.suffix != ".svg":
            raise ValueError(f"{target} does not end in .svg: `rein plot RUN --output {target}` writes other forms")
        target.write_text(self.svg)
        return target

    def _repr_html_(self) -> str:
        return f'<div style="max-width:42em">{self.svg}</div>'

    def __repr__(self) -> str:
        return "Picture(an SVG of a curve: save(path) writes it)"


def draw_curve(directory: RunDirectory, metric: str | None = None) -> Picture:
    """A curve of a run.

    Args:
        directory: of the run.
        metric: name of a scalar; None is the return of evaluations or, before the first of them, of training.
    """
    series = read_series(directory)
    wanted = [metric] if metric is not None else [EVALUATION_RETURN, TRAINING_RETURN]
    found = next((name for name in wanted if name in series), None)
    if found is None:
        raise ValueError(f"nothing was recorded of {' or '.join(wanted)}: train first, or name one of {sorted(series)}")
    evaluations = directory.read_evaluations()
    axis = "env_steps"
    try:
        x, y = make_curve(series, found, axis, evaluations)
    except ValueError:
        axis = "iterations"
        x, y = make_curve(series, found, axis, evaluations)
    title = {EVALUATION_RETURN: "Return of evaluations", TRAINING_RETURN: "Return while training"}.get(found, found)
    record = directory.record()
    bars = bars_of(record) if metric is None else ()
    return Picture(line_chart([Band(title, x, y, y, y, 1)], title, X_AXES[axis], "", 560, 260, bars=bars, hover=True))


def headline(directory: RunDirectory) -> str:
    """What a run is and how good it is, in a line."""
    record = directory.record()
    parts = [
        f"{record.get('name', 'agent')} on {record['env']}" if record.get("env") else str(record.get("name", "agent"))
    ]
    if record.get("env_steps"):
        parts.append(f"{record['env_steps']:,} steps")
    evaluations = [one for one in directory.read_evaluations() if "mean_return" in one]
    if evaluations:
        low, high = evaluations[-1]["ci95"]
        parts.append(f"return {evaluations[-1]['mean_return']:.1f} (95% {low:.1f} to {high:.1f})")
    return ", ".join(parts)


def card(directory: RunDirectory) -> str:
    """HTML about a run: what it is, its score, its curve, its newest video."""
    content = [f"<strong>{escape(headline(directory))}</strong>"]
    try:
        content.append(draw_curve(directory).svg)
    except ValueError:
        content.append("<div>not trained yet</div>")
    video = _newest_video(sorted(directory.videos.glob("*")) if directory.videos.exists() else [])
    return f'<div style="max-width:42em">{"".join(content)}{video}</div>'


def _newest_video(files: Sequence[Path]) -> str:
    known = [one for one in files if one.suffix in _VIDEO_TYPES and one.stat().st_size <= _MOST_VIDEO_BYTES]
    if not known:
        return ""
    newest = max(known, key=lambda one: one.stat().st_mtime)
    return embedded_video(newest)


def embedded_video(path: Path) -> str:
    """HTML that holds a video."""
    kind = _VIDEO_TYPES[path.suffix]
    data = f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
    if kind.startswith("image"):
        return f'<img src="{data}" style="max-width:100%">'
    return f'<video src="{data}" controls loop style="max-width:100%"></video>'


class Video(type(Path())):  # type: ignore[misc]
    """The path of a video, which notebooks play."""

    def _repr_html_(self) -> str:
        if self.suffix not in _VIDEO_TYPES or not self.exists() or self.stat().st_size > _MOST_VIDEO_BYTES:
            return f"<code>{escape(str(self))}</code>"
        return embedded_video(Path(self))


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
