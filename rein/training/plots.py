"""Curves of runs as files: png through matplotlib, svg and html without it."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from rein.training.metric_titles import metric_title
from rein.training.run_directory import write_atomically
from rein.training.statistics_of_runs import X_AXES, Band
from rein.training.svg_chart import COLORS, Bar, line_chart, short_number

FORMATS = (".png", ".svg", ".html")

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; }} td, th {{ text-align: left; padding: .2rem 1rem .2rem 0; }}
</style></head><body>
{chart}
<table><tr><th>runs</th><th>number</th><th>last mean</th><th>95% interval</th></tr>
{rows}
</table></body></html>
"""


def check_format(path: Path) -> None:
    """Raises unless a plot can be written to a file of that name here."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"a plot's file must end in {', '.join(FORMATS)}, not {path.name!r}")
    if path.suffix.lower() == ".png":
        _require_matplotlib()


def write_plot(
    path: Path,
    bands: Sequence[Band],
    metric: str,
    x_axis: str = "env_steps",
    title: str = "",
    bars: Sequence[Bar] = (),
) -> Path:
    """Draws the bands into a file and returns its path.

    Args:
        path: ends in .png, .svg or .html.
        bands: what to draw.
        metric: name of what is drawn.
        x_axis: one of `X_AXES`.
        title: above the chart; by default the metric in words.
        bars: values to be reached.
    """
    check_format(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    title, x_label = title or metric_title(metric), X_AXES[x_axis]
    if path.suffix.lower() == ".png":
        _write_png(path, bands, title, x_label, bars)
        return path
    is_page = path.suffix.lower() == ".html"
    chart = line_chart(bands, title, x_label, "", width=800, height=420, bars=bars, hover=is_page)
    if path.suffix.lower() == ".svg":
        write_atomically(path, chart.replace('fill="currentColor">', 'fill="currentColor" color="#334155">', 1))
    else:
        rows = "\n".join(_row(band) for band in bands)
        write_atomically(path, _PAGE.format(title=escape(title), chart=chart, rows=rows))
    return path


def _row(band: Band) -> str:
    interval = f"{band.low[-1]:.4g} to {band.high[-1]:.4g}" if band.num_runs > 1 else ""
    cells = (escape(band.label), str(band.num_runs), f"{band.mean[-1]:.4g}", interval)
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _require_matplotlib() -> Any:
    try:
        import matplotlib.figure
        import matplotlib.ticker
    except ImportError as error:
        raise ImportError("a png needs matplotlib: pip install 'rein-rl[plot]', or write .svg or .html") from error
    return matplotlib


def _write_png(path: Path, bands: Sequence[Band], title: str, x_label: str, bars: Sequence[Bar]) -> None:
    matplotlib = _require_matplotlib()
    figure = matplotlib.figure.Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for index, band in enumerate(bands):
        color = COLORS[index % len(COLORS)]
        label = f"{band.label} ({band.num_runs} runs)" if band.num_runs > 1 else band.label
        axes.plot(band.x, band.mean, color=color, label=label, marker="o" if len(band.x) == 1 else None)
        if band.num_runs > 1:
            axes.fill_between(band.x, band.low, band.high, color=color, alpha=0.18, linewidth=0)
    for bar in bars:
        axes.axhline(bar.value, color="#64748b", linestyle="--", linewidth=1)
        axes.annotate(
            bar.label, (0.01, bar.value), xycoords=("axes fraction", "data"), xytext=(0, 3), textcoords="offset points"
        )
    axes.set(title=title, xlabel=x_label)
    axes.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: short_number(value)))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if len(bands) > 1:
        axes.legend(fontsize="small")
    partial = path.with_name(f".{path.name}.partial.png")
    figure.savefig(partial, dpi=120)
    partial.replace(path)
