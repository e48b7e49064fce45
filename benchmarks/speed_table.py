"""From the JSON report of `benchmarks/run.py` to tables, a page and a chart."""

from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from measuring import BUSY
from speed_rows import JUDGED, OTHERS, OURS, PEERS

TITLES = {"sb3": "SB3", "sbx": "SBX", "tianshou": "Tianshou", "torchrl": "TorchRL", "ceiling": "matmul ceiling"}
TITLES |= {"gymnasium": "Gymnasium", "envpool": "EnvPool"}
PARTS = ("env", "act", "sample", "learn", "other")
COLORS = {"rein": "#93c5fd", "rein compiled": "#2563eb", "sb3": "#d97706", "sbx": "#059669"}
COLORS |= {"tianshou": "#c026d3", "torchrl": "#dc2626", "ceiling": "#6b7280"}

Report = dict[str, Any]


class Verdict(NamedTuple):
    """How a row compares with its bar."""

    ours: str
    reference: str
    score: float
    """A ratio, or for rows without a reference the value itself."""
    is_met: bool | None
    """None if there is no bar."""


def best(row: Report, name: str, threads: str | None = None) -> Report | None:
    """Result of a contender with its best number of threads, or with the given one."""
    results = row["results"].get(name, {})
    for count, result in results.items():
        if result["is_best"] if threads is None else count == threads:
            return {**result, "threads": count}
    return None


def judge(row: Report) -> Verdict | None:
    """Whether what users get reaches the bar; None if ours or the reference was not measured."""
    higher = row["higher_is_better"]
    found = {name: result for name in JUDGED if (result := best(row, name)) is not None}
    if not found:
        return None
    ours = (max if higher else min)(found, key=lambda name: found[name]["value"])
    value, reference, score = found[ours]["value"], row["against"], found[ours]["value"]
    if reference == "peers":
        peers = {name: result["value"] for name in PEERS + OTHERS if (result := best(row, name)) is not None}
        if not peers:
            return None
        reference = max(peers, key=lambda name: peers[name])
        score = value / peers[reference]
    elif reference:
        threads = found[ours]["threads"] if reference == "ceiling" else None
        result = best(row, reference, threads)
        if result is None:
            return None
        score = value / result["value"]
    bar = row["bar"]
    return Verdict(ours, reference, score, None if bar is None else (score >= bar if higher else score <= bar))


def number(value: float) -> str:
    """A figure as people write it: three digits that count, thousands separated."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def cell(row: Report, names: tuple[str, ...]) -> str:
    """The best figure of some contenders, with its threads and marks; "-" if none was measured."""
    found = [result for name in names if (result := best(row, name)) is not None]
    if not found:
        return "-"
    result = (max if row["higher_is_better"] else min)(found, key=lambda one: one["value"])
    marks = "*" if result["other_cpu"] > BUSY else ""
    most = max(one["repeats"] for results in row["results"].values() for one in results.values())
    marks += "†" if result["repeats"] < most else ""
    return f"{number(result['value'])}{marks} ({result['threads']})"


def _verdict_cells(row: Report) -> list[str]:
    """Ratio, bar, and whether it is met."""
    verdict = judge(row)
    sign = "≥" if row["higher_is_better"] else "≤"
    bar = "-" if row["bar"] is None else f"{sign} {row['bar']:g}"
    if verdict is None:
        return ["-", bar, "-"]
    reference = f"x {TITLES.get(verdict.reference, verdict.reference)}" if verdict.reference else row["unit"]
    met = {None: "-", True: "yes", False: "**no**"}[verdict.is_met]
    return [f"{verdict.score:.2f} {reference}", bar, met]


def _cells(row: Report) -> list[str]:
    eager, sb3 = best(row, "rein"), best(row, "sb3")
    has_both = eager is not None and sb3 is not None and row["higher_is_better"]
    return [
        row["title"] or row["name"],
        row["unit"],
        cell(row, OURS[:1]),
        cell(row, OURS[1:2]),
        cell(row, OURS[2:]),
        *(cell(row, (name,)) for name in PEERS),
        cell(row, OTHERS),
        cell(row, ("ceiling", "torch")),
        *_verdict_cells(row),
        f"{eager['value'] / sb3['value']:.2f}" if has_both and eager and sb3 else "-",
    ]


HEADINGS = [
    "row",
    "unit",
    "Rein",
    "compiled",
    "with Gymnasium's env",
    *(TITLES[name] for name in PEERS),
    "others",
    "limit",
    "ratio",
    "bar",
    "met",
    "Rein, not compiled / SB3",
]


def _share_rows(report: Report) -> list[list[str]]:
    lines = []
    for row in report["rows"]:
        for name in JUDGED:
            result = best(row, name)
            if result is not None and "shares" in result:
                shares = [f"{100 * result['shares'][part]:.0f} %" for part in PARTS]
                lines.append([row["title"] or row["name"], name, *shares])
    return lines


def _notes(report: Report) -> list[str]:
    notes = []
    for row in report["rows"]:
        title = row["title"] or row["name"]
        notes += [f"{title}: {TITLES.get(name, name)} is missing: {why}" for name, why in row["missing"].items()]
        for name in OURS:
            notes += [f"{title}: {name}: {note}" for note in (best(row, name) or {}).get("notes", [])]
    return notes


def _aligned(lines: list[list[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def text_table(report: Report) -> str:
    """The report for a terminal."""
    parts = [_aligned([HEADINGS, *(_cells(row) for row in report["rows"])])]
    shares = _share_rows(report)
    if shares:
        parts.append(_aligned([["where the time went", "", *PARTS], *shares]))
    parts.append(
        f"(n): threads; *: other processes used more than {BUSY} cores; †: fewer repeats, could not be the fastest"
    )
    return "\n\n".join([*parts, *_notes(report)])


THREADS_HEADINGS = [
    "row",
    "threads",
    "Rein",
    "compiled",
    "SB3",
    "SBX",
    "best of ours / best peer",
    "not compiled / SB3",
]


def threads_table(report: Report) -> str:
    """Training rows with each number of threads by itself, in Markdown."""
    lines = [THREADS_HEADINGS]
    for row in report["rows"]:
        counts = sorted({count for results in row["results"].values() for count in results}, key=int)
        for count in counts if row["against"] == "peers" else ():
            names = (*JUDGED, *PEERS)
            found = {name: result for name in names if (result := best(row, name, count)) is not None}
            values = {name: result["value"] for name, result in found.items()}
            ours, peers = ([values[name] for name in group if name in values] for group in (JUDGED, PEERS))
            shown = [
                f"{number(values[name])}{chr(92) + '*' if found[name]['other_cpu'] > BUSY else ''}"
                if name in values
                else "-"
                for name in ("rein", "rein compiled", "sb3", "sbx")
            ]
            ratio = f"{max(ours) / max(peers):.2f}" if ours and peers else "-"
            eager = f"{values['rein'] / values['sb3']:.2f}" if {"rein", "sb3"} <= set(values) else "-"
            lines.append([row["title"] or row["name"], count, *shown, ratio, eager])
    return _markdown(lines)


def _markdown(lines: list[list[str]]) -> str:
    head, *rest = lines
    rows = ["| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rest]]
    return "\n".join(rows).replace("| --- ", "|---").replace("|--- |", "|---|").replace("--- |", "---|")


def table(report: Report) -> str:
    """The report for a page, in Markdown."""
    machine = report["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in machine.get("packages", {}).items())
    facts = (
        f"Measured on {report['date']}: {machine.get('processor')}, {machine.get('cores')} cores, Python "
        f"{machine.get('python')}, {packages}; commit {machine.get('commit')}; median of {report['repeats']} repeats of "
        f"{report['seconds']:g} s."
    )
    legend = (
        f"In parentheses the number of threads. \\*: other processes used more than {BUSY} cores meanwhile. †: measured in "
        "fewer repeats, since it could not be the fastest peer."
    )
    parts = [facts, _markdown([HEADINGS, *(_cells(row) for row in report["rows"])]).replace("* (", "\\* ("), legend]
    shares = _share_rows(report)
    if shares:
        parts += ["Where our time went:", _markdown([["row", "form", *PARTS], *shares])]
    notes = _notes(report)
    if notes:
        parts.append("\n".join(f"- {note}" for note in notes))
    return "\n\n".join(parts)


def replace_block(path: str, begin: str, end: str, content: str) -> None:
    """Puts `content` between two marks of a page.

    Raises:
        ValueError: the page does not have the marks.
    """
    page = Path(path).read_text()
    head, found, rest = page.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"{path} has no block between {begin!r} and {end!r}: put these two lines where it should be")
    Path(path).write_text(f"{head}{begin}\n{content}\n{end}{tail}")


# The chart: for each row one bar per contender, as a multiple of the best peer.

_LEFT, _WIDTH, _BAR, _GAP = 190, 720, 11, 14
_NUMBER_WIDTH = 20


def _beside(end: float, line: float) -> float:
    """Where the number of a bar begins: at its end, or beyond the dashed line if that would go through it."""
    return (line if end <= line < end + 4 + _NUMBER_WIDTH else end) + 4


def chart(report: Report) -> str:
    """An SVG picture of all rows that compare with peers; the best peer of each row is 1."""
    rows = [row for row in report["rows"] if "steps" in row["unit"] and not set(row["results"]).isdisjoint(PEERS)]
    rows = [row for row in rows if set(row["results"]).isdisjoint(OTHERS) and judge(row) is not None]
    if not rows:
        raise ValueError("there is nothing to draw: no row has both ours and a peer")
    names = ("rein", "rein compiled", *PEERS)
    scaled: list[tuple[Report, dict[str, float]]] = []
    for row in rows:
        values = {name: result["value"] for name in names if (result := best(row, name)) is not None}
        top = max(value for name, value in values.items() if name in PEERS)
        scaled.append((row, {name: value / top for name, value in values.items()}))
    widest = max(value for _, values in scaled for value in values.values())
    unit = (_WIDTH - _LEFT - 60) / widest
    parts, y = [], 44
    for row, values in scaled:
        middle = y + _BAR * len(values) / 2 + 4
        parts.append(f'<text x="{_LEFT - 8}" y="{middle:.0f}" text-anchor="end">{escape(row["title"])}</text>')
        for name, value in values.items():
            x = _beside(_LEFT + value * unit, _LEFT + unit)
            parts.append(
                f'<rect x="{_LEFT}" y="{y}" width="{max(1.0, value * unit):.1f}" height="{_BAR - 1}" fill="{COLORS[name]}"/>'
                f'<text x="{x:.1f}" y="{y + 9}" font-size="9">{value:.2f}</text>'
            )
            y += _BAR
        y += _GAP
    line = _LEFT + unit
    parts.append(
        f'<line x1="{line:.1f}" x2="{line:.1f}" y1="38" y2="{y}" stroke="currentColor" stroke-dasharray="3 3"/>'
    )
    legend, x = [], _LEFT
    for name in names:
        label = TITLES.get(name, name.replace("rein", "Rein"))
        legend.append(f'<rect x="{x}" y="22" width="10" height="10" fill="{COLORS[name]}"/>')
        legend.append(f'<text x="{x + 14}" y="31">{escape(label)}</text>')
        x += 26 + 7 * len(label)
    title = "Training speed as a multiple of the best peer (dashed)"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" role="img" aria-label="{title}" '
            'font-family="system-ui, sans-serif" font-size="12" fill="currentColor">',
            f'<text x="{_LEFT}" y="14" font-size="14" font-weight="600">{title}</text>',
            *legend,
            *parts,
            "</svg>",
        ]
    )
