"""Charts and tables of evaluations on labelled data."""

from typing import Any

import numpy as np
from torch import Tensor

from rein.training.statistics_of_runs import Array, Band
from rein.training.supervised import SupervisedEvaluation, describe_number
from rein.training.svg_chart import line_chart


def evaluation_charts(algorithm: Any) -> list[str]:
    """SVG charts of how far a classifier can be trusted: calibration, and how its uncertainty finds outliers."""
    curves = algorithm.eval_curves() if hasattr(algorithm, "eval_curves") else None
    if curves is None:
        return []
    ends = np.array([0.0, 1.0])
    charts = [
        line_chart(
            [_line("predictions", curves.confidence, curves.accuracy), _line("calibrated", ends, ends)],
            "Calibration",
            "confidence",
            "accuracy",
        )
    ]
    if curves.roc:
        lines = [_line(f"by {name}", *rates) for name, rates in curves.roc.items()]
        charts.append(line_chart([*lines, _line("by chance", ends, ends)], "Outliers found", "false", "true"))
    return charts


def _line(label: str, x: Tensor | Array, y: Tensor | Array) -> Band:
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    return Band(label, xs, ys, ys, ys, 1)


def evaluation_text(result: SupervisedEvaluation) -> str:
    """The numbers of an evaluation, one on each line."""
    rows = [describe_number(name, value) for name, value in result.numbers.items()]
    width = max((len(title) for title, _ in rows), default=0)
    return "\n".join(f"{title:<{width}}  {text}" for title, text in rows)
