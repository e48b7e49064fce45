"""Line charts with bands as SVG text, without any plotting package, for reports and web pages."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from rein.training.statistics_of_runs import Array, Band

COLORS = ("#2563eb", "#d97706", "#059669", "#c026d3", "#dc2626", "#0891b2", "#65a30d", "#7c3aed")
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 30, 44
_LINE = 18
_LETTER, _TITLE_LETTER = 6.4, 7.8
"""Widths of one, on the safe side."""
_MOST_SPOTS = 40
_STYLE = "<style>.spot > g { visibility: hidden } .spot:hover > g { visibility: visible }</style>"


class Bar(NamedTuple):
    """A value to be reached."""

    value: float
    label: str


def bars_of(record: Mapping[str, Any]) -> list[Bar]:
    """What a run of an entry of the zoo is to reach, by its run.json."""
    bars = record.get("bars") or {}
    words = (("bar", "bar"), ("at_most", "at most"))
    return [Bar(bars[key], f"{word} {short_number(bars[key])}") for key, word in words if key in bars]


def line_chart(
    bands: Sequence[Band],
    title: str,
    x_label: str,
    y_label: str,
    width: int = 640,
    height: int = 320,
    bars: Sequence[Bar] = (),
    hover: bool = False,
) -> str:
    """An SVG element; colours of text and grid follow the surrounding page (`currentColor`).

    Args:
        bands: lines with their confidence bands; at least one with at least one point.
        title: above the chart.
        x_label: below the axis.
        y_label: beside the axis.
        width: in pixels.
        height: in pixels; what the legend and a long title need comes on top.
        bars: drawn as dashed lines across the chart.
        hover: show values under the pointer, where the picture is a part of a page; needs no script.
    """
    if not any(len(band.x) for band in bands):
        raise ValueError(f"{title}: there is nothing to draw")
    heading = _wrapped(title, width - _LEFT - _RIGHT, _TITLE_LETTER)
    top = _LINE * (len(heading) - 1)
    frame = _Frame(bands, width, height, bars)
    legend = _legend(bands, height, width) if len(bands) > 1 else []
    lines = sum(len(lines) for lines in _legend_lines(bands, width)) if legend else 0
    drawn = [(band, COLORS[index % len(COLORS)]) for index, band in enumerate(bands) if len(band.x)]
    whole = height + top + _LINE * lines + (6 if legend else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {whole}" role="img" '
        f'aria-label="{escape(title)}" font-family="system-ui, sans-serif" font-size="12" fill="currentColor">',
        *([_STYLE] if hover else []),
        *(
            f'<text x="{_LEFT}" y="{18 + _LINE * index}" font-size="14" font-weight="600">{escape(text)}</text>'
            for index, text in enumerate(heading)
        ),
        f'<g transform="translate(0 {top})">',
        *_grid(frame),
        *(_band(band, color, frame) for band, color in drawn),
        *_bars(bars, frame),
        f'<text x="{(_LEFT + frame.right) / 2:.1f}" y="{height - 8}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text transform="translate(14 {(_TOP + frame.bottom) / 2:.1f}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>",
        *legend,
        *(_spots(drawn, frame) if hover else []),
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts)


class _Frame:
    """Where data lies on the picture."""

    def __init__(self, bands: Sequence[Band], width: int, height: int, bars: Sequence[Bar]) -> None:
        self.right, self.bottom = width - _RIGHT, height - _BOTTOM
        xs = np.concatenate([band.x for band in bands])
        ys = np.concatenate([*(np.concatenate([band.low, band.high]) for band in bands), [bar.value for bar in bars]])
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
            anchor = "end" if x > frame.right - 12 else "middle"
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{frame.bottom}" y2="{frame.bottom + 4}" stroke="currentColor"/>'
                f'<text x="{min(x, frame.right + 12):.1f}" y="{frame.bottom + 17}" text-anchor="{anchor}">'
                f"{short_number(tick)}</text>"
            )
    parts.append(
        f'<line x1="{_LEFT}" x2="{frame.right}" y1="{frame.bottom}" y2="{frame.bottom}" stroke="currentColor" '
        'stroke-opacity="0.6"/>'
    )
    return parts


def _band(band: Band, color: str, frame: _Frame) -> str:
    x = frame.x(band.x)
    parts = []
    if (band.high > band.low).any():
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


def _bars(bars: Sequence[Bar], frame: _Frame) -> list[str]:
    parts = []
    for bar in bars:
        y = float(frame.y(np.array(bar.value)))
        below = y < _TOP + 14
        parts.append(
            f'<line x1="{_LEFT}" x2="{frame.right}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" '
            f'stroke-dasharray="5 4" stroke-opacity="0.7"/><text x="{_LEFT + 6}" y="{y + (13 if below else -4):.1f}" '
            f'font-size="11" opacity="0.8">{escape(bar.label)}</text>'
        )
    return parts


def _spots(drawn: Sequence[tuple[Band, str]], frame: _Frame) -> list[str]:
    """Strips across the chart; the one under the pointer shows the values of all lines there."""
    xs = np.unique(np.concatenate([band.x for band, _ in drawn]))
    xs = xs[np.unique(np.linspace(0, len(xs) - 1, min(len(xs), _MOST_SPOTS)).round().astype(int))]
    at = frame.x(xs)
    edges = np.concatenate([[_LEFT], (at[1:] + at[:-1]) / 2, [frame.right]])
    spots = []
    for index, x in enumerate(xs.tolist()):
        rows = [(short_number(x), "currentColor")]
        marks = []
        for band, color in drawn:
            near = int(np.abs(band.x - x).argmin())
            if band.x[0] <= x <= band.x[-1]:
                y = float(frame.y(band.mean[near : near + 1])[0])
                marks.append(f'<circle cx="{at[index]:.1f}" cy="{y:.1f}" r="3.5" fill="{color}"/>')
                rows.append((_value_text(band, near, len(drawn) > 1), color))
        left, right = edges[index], edges[index + 1]
        side, anchor = (-8, "end") if at[index] > (_LEFT + frame.right) / 2 else (8, "start")
        texts = "".join(
            f'<text x="{at[index] + side:.1f}" y="{_TOP + 12 + 15 * row}" text-anchor="{anchor}" fill="{color}" '
            f'stroke="Canvas" stroke-width="4" paint-order="stroke" font-weight="600">{escape(text)}</text>'
            for row, (text, color) in enumerate(rows)
        )
        line = f'<path d="M{at[index]:.1f} {_TOP}V{frame.bottom}" stroke="currentColor" stroke-opacity="0.4"/>'
        spots.append(
            f'<g class="spot"><rect x="{left:.1f}" y="{_TOP}" width="{right - left:.1f}" '
            f'height="{frame.bottom - _TOP}" fill="transparent"/>'
            f'<g pointer-events="none">{line}{"".join(marks)}{texts}</g></g>'
        )
    return spots


def _value_text(band: Band, index: int, named: bool) -> str:
    text = f"{band.mean[index]:.4g}"
    if band.high[index] > band.low[index]:
        text += f" ({band.low[index]:.4g} to {band.high[index]:.4g})"
    return f"{textwrap.shorten(band.label, 24, placeholder='…')}: {text}" if named else text


def _legend(bands: Sequence[Band], top: int, width: int) -> list[str]:
    parts, y = [], top + 8
    for index, lines in enumerate(_legend_lines(bands, width)):
        parts.append(
            f'<rect x="{_LEFT}" y="{y - 6}" width="14" height="4" rx="1" fill="{COLORS[index % len(COLORS)]}"/>'
        )
        for line in lines:
            parts.append(f'<text x="{_LEFT + 20}" y="{y}">{escape(line)}</text>')
            y += _LINE
    return parts


def _legend_lines(bands: Sequence[Band], width: int) -> list[list[str]]:
    return [_wrapped(_legend_text(band), width - _LEFT - _RIGHT - 20, _LETTER) for band in bands]


def _wrapped(text: str, width: float, letter: float) -> list[str]:
    """The text in lines that fit into so many pixels."""
    return textwrap.wrap(text, max(8, int(width / letter))) or [text]


def _legend_text(band: Band) -> str:
    return f"{band.label} ({band.num_runs} runs)" if band.num_runs > 1 else band.label
