"""The tree of an agent as SVG text: boxes from left to right, in the colours of the surrounding page."""

from html import escape
from typing import NamedTuple

from rein.training.agent_text import count_text, optimizer_text, port_texts
from rein.training.agent_tree import AgentTree, Node, OptimizerEntry
from rein.training.svg_chart import COLORS

_WIDTH, _GAP, _SPACE = 270, 44, 12
_LINE, _PADDING = 16, 8
_LETTER = 6.7
"""Width of one."""


class _Box(NamedTuple):
    node: Node
    lines: list[str]
    column: int
    top: float
    parent: "_Box | None"

    @property
    def x(self) -> float:
        return self.column * (_WIDTH + _GAP) + 1

    @property
    def height(self) -> float:
        return _LINE * len(self.lines) + 2 * _PADDING

    @property
    def middle(self) -> float:
        return self.top + self.height / 2


def draw_svg(tree: AgentTree) -> str:
    """An SVG element; each optimizer has a colour, which its components wear at their left.

    Args:
        tree: made by `describe_agent`.
    """
    boxes: list[_Box] = []
    bottom = _place(tree["root"], 0, 1.0, None, tree["optimizers"], boxes)
    columns = max(box.column for box in boxes) + 1
    width = columns * (_WIDTH + _GAP) - _GAP + 2
    legend = [_legend(one, bottom + _SPACE + _LINE * (i + 1), width) for i, one in enumerate(tree["optimizers"])]
    height = bottom + _SPACE + _LINE * (len(legend) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="the agent as a tree" style="max-width: {width:g}px" font-family="ui-monospace, monospace" '
        'font-size="11" fill="currentColor">',
        *(_link(box) for box in boxes if box.parent is not None),
        *(_draw(box) for box in boxes),
        *legend,
        "</svg>",
    ]
    return "\n".join(parts)


def _place(
    node: Node, column: int, top: float, parent: _Box | None, optimizers: list[OptimizerEntry], boxes: list[_Box]
) -> float:
    """Adds the boxes of a node and of all below it; returns where the next one may begin."""
    lines = _lines(node, optimizers)
    box = _Box(node, lines, column, top, parent)
    boxes.append(box)
    below = top
    for child in node["children"]:
        below = _place(child, column + 1, below, box, optimizers, boxes)
    return max(top + box.height + _SPACE, below)


def _lines(node: Node, optimizers: list[OptimizerEntry]) -> list[str]:
    lines = [node["name"], node["type"]]
    for word, ports in (("in", node["inputs"]), ("out", node["outputs"]), ("state", node["state"])):
        lines += [f"{word} {text}" for text in port_texts(ports)]
    if node["parameters"]:
        lines.append(f"{count_text(node['parameters'])}: {optimizer_text(node, optimizers)}")
    return lines


def _link(box: _Box) -> str:
    assert box.parent is not None
    start, end = box.parent.x + _WIDTH, box.x
    turn = (start + end) / 2
    first = box.parent.top + _PADDING + _LINE / 2
    last = box.top + _PADDING + _LINE / 2
    return (
        f'<path d="M{start:g} {first:g} H{turn:g} V{last:g} H{end:g}" fill="none" stroke="currentColor" opacity="0.4"/>'
    )


def _draw(box: _Box) -> str:
    whole = "\n".join(box.lines)
    parts = [
        f"<g><title>{escape(whole)}</title>",
        f'<rect x="{box.x:g}" y="{box.top:g}" width="{_WIDTH}" height="{box.height:g}" rx="6" fill="currentColor" '
        'fill-opacity="0.05" stroke="currentColor" stroke-opacity="0.35"/>',
    ]
    share = box.height / max(len(box.node["optimizers"]), 1)
    for i, number in enumerate(box.node["optimizers"]):
        top = box.top + i * share
        parts.append(f'<rect x="{box.x:g}" y="{top:g}" width="4" height="{share:g}" fill="{_color(number)}"/>')
    for i, line in enumerate(box.lines):
        weight = ' font-weight="700"' if i == 0 else ""
        shade = ' opacity="0.75"' if i > 1 else ""
        shown = _cut(line, _WIDTH - 20)
        y = box.top + _PADDING + _LINE * i + 12
        parts.append(f'<text x="{box.x + 12:g}" y="{y:g}"{weight}{shade}>{escape(shown)}</text>')
    return "\n".join([*parts, "</g>"])


def _legend(optimizer: OptimizerEntry, y: float, width: float) -> str:
    text = (
        f"{optimizer['name']} #{optimizer['number']}, lr={optimizer['learning_rate']}: "
        f"{count_text(optimizer['parameters'])} of {', '.join(optimizer['components'])}"
    )
    return (
        f'<rect x="1" y="{y - 9:g}" width="10" height="10" fill="{_color(optimizer["number"])}"/>'
        f'<text x="18" y="{y:g}"><title>{escape(text)}</title>{escape(_cut(text, width - 18))}</text>'
    )


def _cut(text: str, width: float) -> str:
    letters = int(width / _LETTER)
    return text if len(text) <= letters else text[: letters - 1] + "…"


def _color(number: int) -> str:
    return COLORS[(number - 1) % len(COLORS)]
