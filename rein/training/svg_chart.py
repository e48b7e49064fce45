"""Line charts with bands as SVG text, without any plotting package, for reports and web pages."""

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from rein.training.statistics_of_runs import Array, Band

COLORS = ("#2563eb", "#d97706", "#059669", "#c026d3", "#dc2626", "#0891b2", "#65a30d", "#7c3aed")
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 30, 44
_LEGEND_LINE = 18


def line_chart(
    bands: Sequence[Band], title: str, x_label: str, y_label: str, width: int = 640, height: int = 320
) -> str:
    """An SVG element; colours of text and grid follow the surrounding page (`currentColor`).

    Args:
        bands: lines with their confidence bands; at least one with at least one point.
        title: above the chart.
        x_label: below the axis.
        y_label: beside the axis.
        width: in pixels.
        height: in pixels, legend not included.
    """
    if not any(len(band.x) for band in bands):
        raise ValueError(f"{title}: there is nothing to draw")
    legend_height = _LEGEND_LINE * len(bands) if len(bands) > 1 else 0
    frame = _Frame(bands, width, height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + legend_height}" role="img" '
        f'aria-label="{escape(title)}" font-family="system-ui, sans-serif" font-size="12" fill="currentColor">',
        f'<text x="{_LEFT}" y="18" font-size="14" font-weight="600">{escape(title)}</text>',
        *_grid(frame),
        *(_band(band, COLORS[index % len(COLORS)], frame) for index, band in enumerate(bands) if len(band.x)),
        f'<text x="{(_LEFT + frame.right) / 2:.1f}" y="{height - 8}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text transform="translate(14 {(_TOP + frame.bottom) / 2:.1f}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>",
        *(_legend(bands, height) if legend_height else ()),
        "</svg>",
    ]
    return "\n".join(parts)


class _Frame:
    """Where data lies on the picture."""

    def __init__(self, bands: Sequence[Band], width: int, height: int) -> None:
        self.right, self.bottom = width - _RIGHT, height - _BOTTOM
        xs = np.concatenate([band.x for band in bands])
        ys = np.concatenate([np.concatenate([band.low, band.high]) for band in bands])
        self.x_ticks = nice_ticks(float(xs.min()), float(xs.max()), 6)
        self.y_ticks = nice_ticks(float(ys.min()), float(ys.max()), 5)
        self.x_range = (float(xs.min()), float(xs.max()))
        self.y_range = (min(self.y_ticks[0], float(ys.min())), max(self.y_ticks[-1], float(ys.max())))

    def x(self, value: Array) -> Array:
        low, high = self.x_range
        return _LEFT + (value - low) / ((high - low) or 1.0) * (self.right - _LEFT)

    def y(self, value: Array) -> Array:
        low, high = self.y_range
        return self.bottom - (value - low) / ((high - low) or 1.0) * (self.bottom - _TOP)


def nice_ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers that cover [low, high], about so many."""
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"an axis from {low} to {high} cannot be drawn")
    if high <= low:
        spread = abs(low) * 0.1 or 1.0
        low, high = low - spread, high + spread
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def short_number(value: float) -> str:
    """A number for people: 1500000 is "1.5M"."""
    if abs(value) < 1e-12:
        return "0"
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.4g}{letter}"
    return f"{value:.4g}"


def _grid(frame: _Frame) -> list[str]:
    parts = []
    for tick in frame.y_ticks:
        y = float(frame.y(np.array(tick)))
        parts.append(
            f'<line x1="{_LEFT}" x2="{frame.right}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" '
            f'stroke-opacity="0.15"/><text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short_number(tick)}</text>'
        )
    for tick in frame.x_ticks:
        x = float(frame.x(np.array(tick)))
        if _LEFT - 1 <= x <= frame.right + 1:
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{frame.bottom}" y2="{frame.bottom + 4}" stroke="currentColor"/>'
                f'<text x="{x:.1f}" y="{frame.bottom + 17}" text-anchor="middle">{short_number(tick)}</text>'
            )
    parts.append(
        f'<line x1="{_LEFT}" x2="{frame.right}" y1="{frame.bottom}" y2="{frame.bottom}" stroke="currentColor" '
        'stroke-opacity="0.6"/>'
    )
    return parts


def _band(band: Band, color: str, frame: _Frame) -> str:
    x = frame.x(band.x)
    parts = []
    if band.num_runs > 1:
        outline = _points(np.concatenate([x, x[::-1]]), frame.y(np.concatenate([band.high, band.low[::-1]])))
        parts.append(f'<polygon points="{outline}" fill="{color}" fill-opacity="0.18"/>')
    y = frame.y(band.mean)
    if len(x) == 1:
        parts.append(f'<circle cx="{x[0]:.1f}" cy="{y[0]:.1f}" r="3" fill="{color}"/>')
    else:
        parts.append(f'<polyline points="{_points(x, y)}" fill="none" stroke="{color}" stroke-width="1.8"/>')
    return f"<g><title>{escape(_legend_text(band))}</title>{''.join(parts)}</g>"


def _points(x: Array, y: Array) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))


def _legend(bands: Sequence[Band], top: int) -> list[str]:
    return [
        f'<rect x="{_LEFT}" y="{top + index * _LEGEND_LINE + 2}" width="14" height="4" '
        f'fill="{COLORS[index % len(COLORS)]}"/><text x="{_LEFT + 20}" y="{top + index * _LEGEND_LINE + 8}">'
        f"{escape(_legend_text(band))}</text>"
        for index, band in enumerate(bands)
    ]


def _legend_text(band: Band) -> str:
    return f"{band.label} ({band.num_runs} runs)" if band.num_runs > 1 else band.label
