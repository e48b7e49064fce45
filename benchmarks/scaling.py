"""How cost grows with environments, batch, network width and buffer size.

    python benchmarks/scaling.py --out scaling.json --chart docs/scaling.svg --page docs/performance.md
    python benchmarks/scaling.py --axes batch width --seconds 1
    python benchmarks/scaling.py --from scaling.json --page docs/performance.md

Every point is a process of its own with one thread; the fastest of `--repeats` counts, points taking turns.
"""

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

from measuring import Window, calls_per_second, emit, run_measured
from speed_table import number, replace_block

BEGIN, END = "<!-- scaling: begin -->", "<!-- scaling: end -->"
BATCH = 256


class Axis(NamedTuple):
    """What grows, and what it costs."""

    title: str
    x_label: str
    points: tuple[int, ...]
    unit: str
    measure: Callable[[int, float, bool], float]
    """From a point, seconds of timing and whether to compile, to the cost in `unit`."""
    forms: tuple[str, ...] = ("eager", "compiled")


def ppo_step_cost(num_envs: int, seconds: float, compile: bool) -> float:
    """Microseconds per environment step of a PPO run on CartPole, 1,024 steps and 16 minibatches per iteration."""
    from workload import ppo

    workload = ppo("CartPole-v1")
    changes = {
        "create_environment.num_parallel_environments": num_envs,
        "TrainerConfig.unroll_length": max(1, 1024 // num_envs),
    }
    window = Window(workload.warm, seconds, settle=0.5 if compile else 0.0)
    with_trainer(workload._replace(settings={**workload.settings, **changes}), compile, lambda t: train(t, window))
    return 1e6 / window.result()["value"]


def train(trainer: Any, window: Window) -> None:
    from workload import train_until_closed

    train_until_closed(trainer, window)


def sac_update_cost(changes: dict[str, Any], seconds: float, compile: bool) -> float:
    """Milliseconds per SAC update on 17 observations and 6 actions, sampling included."""
    from workload import WORKLOADS

    from rein.runtime import summary

    workload = WORKLOADS["update/sac"]()
    found: list[float] = []

    def measure(trainer: Any) -> None:
        train(trainer, Window(5000, 0.01, 1))
        with trainer.run, summary.record_if(lambda: False):
            window = calls_per_second(trainer.algorithm.train_from_replay_buffer, seconds, 5, 0.5 if compile else 0.0)
        found.append(1e3 / window.result()["value"])

    with_trainer(workload._replace(settings={**workload.settings, **changes}), compile, measure)
    return found[0]


def batch_cost(batch: int, seconds: float, compile: bool) -> float:
    return sac_update_cost({"TrainerConfig.mini_batch_size": batch}, seconds, compile)


def width_cost(width: int, seconds: float, compile: bool) -> float:
    return sac_update_cost({"hidden_layers": (width, width)}, seconds, compile)


def with_trainer(workload: Any, compile: bool, use: Callable[[Any], None]) -> None:
    from workload import make_trainer

    from rein.config import fresh_configs

    with tempfile.TemporaryDirectory(prefix="rein-scaling-") as directory, fresh_configs():
        trainer = make_trainer(workload, directory, "auto", compile)
        use(trainer)
        trainer.close()


def filled_buffer(steps: int, prioritized: bool) -> Any:
    """A full replay buffer of 8 environments with 17 observations and 6 actions."""
    import torch

    from rein.data_structures import Experience, TimeStep
    from rein.replay import ReplayBuffer, warm_up
    from rein.specs import extract_spec

    warm_up()
    time_step = TimeStep(
        step_type=torch.ones(8, dtype=torch.int32),
        reward=torch.ones(8),
        discount=torch.ones(8),
        observation=torch.randn(8, 17),
    )
    step = Experience(time_step=time_step, action=torch.randn(8, 6))
    buffer = ReplayBuffer(extract_spec(step), 8, steps // 8, prioritized_sampling=prioritized)
    for _ in range(steps // 8):
        buffer.add_batch(step)
    return buffer


def sample_cost(steps: int, seconds: float, prioritized: bool) -> float:
    """Microseconds per sample of 256 transitions from a full buffer."""
    buffer = filled_buffer(steps, prioritized)
    return 1e6 / calls_per_second(lambda: buffer.get_batch(BATCH, 2), seconds, 50).result()["value"]


AXES = {
    "envs": Axis(
        "PPO CartPole: cost of an environment step",
        "environments",
        (1, 2, 4, 8, 16, 32, 64, 128),
        "us",
        ppo_step_cost,
    ),
    "batch": Axis("SAC: cost of an update", "batch size", (32, 64, 128, 256, 512, 1024, 2048), "ms", batch_cost),
    "width": Axis("SAC: cost of an update", "width of two layers", (32, 64, 128, 256, 512, 1024), "ms", width_cost),
    "buffer": Axis(
        "Replay: cost of sampling 256 transitions",
        "steps in the buffer",
        (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000),
        "us",
        sample_cost,
        ("uniform", "by priority"),
    ),
}


# Measuring -----------------------------------------------------------------------------------------------------------


def measure_axes(arguments: argparse.Namespace) -> dict[str, Any]:
    """Costs by axis, form and point."""
    from rein.training.hardware import describe_machine

    found: dict[str, Any] = {"machine": describe_machine(), "axes": {}}
    for name in arguments.axes:
        axis = AXES[name]
        costs: dict[str, dict[str, list[float]]] = {form: {} for form in axis.forms}
        for _ in range(arguments.repeats):
            for point in axis.points:
                for form in axis.forms:
                    command = [sys.executable, os.path.abspath(__file__), "--seconds", str(arguments.seconds)]
                    measured = run_measured([*command, "--measure", name, form, str(point)], 1, 300.0)
                    value = measured.records[0]["value"] if measured.records else None
                    print(f"{name} {point} {form}: {value or measured.error} {axis.unit}", file=sys.stderr, flush=True)
                    if value is not None:
                        costs[form].setdefault(str(point), []).append(value)
        found["axes"][name] = costs
    return found


# Reporting -----------------------------------------------------------------------------------------------------------


def lines_of(report: dict[str, Any], name: str) -> dict[str, list[tuple[int, float]]]:
    """The points of each form, the fastest repeat of each."""
    costs = report["axes"][name]
    return {form: [(int(x), min(values)) for x, values in points.items()] for form, points in costs.items() if points}


def page(report: dict[str, Any], picture: str) -> str:
    """A table for each axis, in Markdown."""
    parts = [f"![How cost grows]({picture})"] if picture else []
    for name in report["axes"]:
        axis, lines = AXES[name], lines_of(report, name)
        xs = sorted({x for points in lines.values() for x, _ in points})
        rows = [f"| {axis.x_label} | " + " | ".join(f"{x:,}" for x in xs) + " |", "|---" * (len(xs) + 1) + "|"]
        for form, points in lines.items():
            costs = dict(points)
            cells = (number(costs[x]) if x in costs else "-" for x in xs)
            rows.append(f"| {form}, {axis.unit} | " + " | ".join(cells) + " |")
        parts += [f"{axis.title}:", "\n".join(rows)]
    return "\n\n".join(parts)


_PANEL, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 360, 250, 52, 24, 30, 40
COLORS = ("#d97706", "#2563eb")


def chart(report: dict[str, Any]) -> str:
    """One panel per axis, both scales logarithmic, as SVG."""
    panels = [_panel(name, lines_of(report, name), index) for index, name in enumerate(report["axes"])]
    width, height = 2 * _PANEL, _HEIGHT * math.ceil(len(panels) / 2)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="How cost grows" '
            'font-family="system-ui, sans-serif" font-size="11" fill="currentColor">',
            *panels,
            "</svg>",
        ]
    )


def _panel(name: str, lines: dict[str, list[tuple[int, float]]], index: int) -> str:
    axis = AXES[name]
    xs = [math.log10(x) for points in lines.values() for x, _ in points]
    ys = [math.log10(y) for points in lines.values() for _, y in points]
    if not xs:
        return ""
    low, high = math.floor(min(ys)), max(math.ceil(max(ys)), math.floor(min(ys)) + 1)
    right, bottom = _PANEL - _RIGHT, _HEIGHT - _BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - min(xs)) / ((max(xs) - min(xs)) or 1.0)
        up = (math.log10(y) - low) / (high - low)
        return _LEFT + across * (right - _LEFT), bottom - up * (bottom - _TOP)

    parts = [f'<text x="{_LEFT}" y="16" font-weight="600">{escape(axis.title)}, {axis.unit}</text>']
    for power in range(low, high + 1):
        y = place(10 ** min(xs), 10.0**power)[1]
        parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" opacity="0.2"/>')
        parts.append(f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for point in axis.points:
        if min(xs) <= math.log10(point) <= max(xs):
            label = f"{point / 1e6:g}M" if point >= 1e6 else f"{point / 1e3:g}k" if point >= 1e4 else f"{point}"
            x = place(point, 10.0**low)[0]
            parts.append(f'<text x="{x:.1f}" y="{bottom + 15}" text-anchor="middle">{label}</text>')
    middle = (_LEFT + right) / 2
    parts.append(f'<text x="{middle:.0f}" y="{bottom + 32}" text-anchor="middle">{escape(axis.x_label)}</text>')
    for number_of_form, (form, points) in enumerate(lines.items()):
        color = COLORS[number_of_form % len(COLORS)]
        spots = [place(x, y) for x, y in sorted(points)]
        parts.append(
            f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in spots)}" fill="none" stroke="{color}" '
            'stroke-width="1.8"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{color}"/>' for x, y in spots]
        parts.append(
            f'<text x="{_LEFT + 8}" y="{_TOP + 12 + 14 * number_of_form}" fill="{color}">{escape(form)}</text>'
        )
    x, y = (index % 2) * _PANEL, (index // 2) * _HEIGHT
    return f'<g transform="translate({x} {y})">' + "".join(parts) + "</g>"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axes", nargs="+", choices=list(AXES), default=list(AXES))
    parser.add_argument("--seconds", type=float, default=2.0, help="of timing each")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", metavar="FILE", help="JSON file for all costs")
    parser.add_argument("--from", dest="source", metavar="FILE", help="measure nothing; take this JSON file")
    parser.add_argument("--chart", metavar="FILE", help="SVG file")
    parser.add_argument("--page", metavar="FILE", help="page whose marked block becomes the tables")
    parser.add_argument("--measure", nargs=3, metavar=("AXIS", "FORM", "POINT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        name, form, point = arguments.measure
        axis = AXES[name]
        emit(name, axis.unit, value=axis.measure(int(point), arguments.seconds, form == axis.forms[1]))
        return
    if arguments.source:
        with open(arguments.source) as file:
            report = json.load(file)
    else:
        report = measure_axes(arguments)
        if arguments.out:
            with open(arguments.out, "w") as file:
                json.dump(report, file, indent=1)
    print(page(report, ""))
    if arguments.chart:
        with open(arguments.chart, "w") as file:
            file.write(chart(report))
    if arguments.page:
        picture = os.path.relpath(arguments.chart, os.path.dirname(arguments.page) or ".") if arguments.chart else ""
        replace_block(arguments.page, BEGIN, END, page(report, picture))


if __name__ == "__main__":
    main()
