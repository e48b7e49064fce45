"""Draws a metric of runs. Runs that differ by seed only become one line with a 95% bootstrap band.

A path may be a run, or a folder with runs in it, such as runs/ or a sweep.

Example:
  rein plot runs --output curves.png
  rein plot runs/a runs/b --metric Evaluation/AverageReturn --x seconds --output curves.html
  rein plot runs/a --metrics
"""

import argparse
from pathlib import Path

from rein.cli.command import Outcome, Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("runs", nargs="+", metavar="PATH", help="runs, or folders with runs in them")
    parser.add_argument("--metric", default="Metrics/AverageReturn", help="what to draw (default: %(default)s)")
    parser.add_argument("--metrics", action="store_true", help="list the metrics of the runs instead")
    parser.add_argument("--x", default="env_steps", choices=("env_steps", "iterations", "seconds"), help="the axis")
    parser.add_argument("--smooth", type=int, default=1, metavar="N", help="average over N points (default: 1)")
    parser.add_argument("--title", default="", help="above the chart (default: the metric)")
    parser.add_argument(
        "--output", default="curves.svg", metavar="FILE", help=".png, .svg or .html (default: %(default)s)"
    )


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Plots."""
    from rein.training.plots import check_format, write_plot
    from rein.training.statistics_of_runs import RETURNS, find_runs, group_bands, read_series
    from rein.training.svg_chart import bars_of

    runs = find_runs(arguments.runs)
    if arguments.metrics:
        names = sorted({name for one in runs for name in read_series(one)})
        return Outcome({"metrics": names}, "\n".join(names))
    output = Path(arguments.output)
    check_format(output)
    bands = group_bands(runs, arguments.metric, arguments.x, arguments.smooth)
    bars = {bar for one in runs for bar in bars_of(one.record())} if arguments.metric in RETURNS else set()
    write_plot(output, bands, arguments.metric, arguments.x, arguments.title, sorted(bars))
    groups = [
        {
            "label": band.label,
            "runs": band.num_runs,
            "last_x": float(band.x[-1]),
            "last_mean": float(band.mean[-1]),
            "last_ci95": [float(band.low[-1]), float(band.high[-1])] if band.num_runs > 1 else None,
        }
        for band in bands
    ]
    data = {"file": str(output), "metric": arguments.metric, "x": arguments.x, "groups": groups}
    lines = [f"  {one['label']}: {one['last_mean']:.4g} at the end, {one['runs']} runs" for one in groups]
    return Outcome(data, "\n".join([f"{output}: {arguments.metric}", *lines]))
