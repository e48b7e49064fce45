"""The tree of an agent as text, with colours where a terminal shows them."""

import io
from typing import TYPE_CHECKING

from rein.training.agent_tree import AgentTree, Node, OptimizerEntry, Ports

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

_PLAIN_WIDTH = 200
_MOST_PORTS = 6


def draw_text(tree: AgentTree, width: int | None = None) -> str:
    """The tree and its optimizers, a few lines for each component.

    Args:
        tree: made by `describe_agent`.
        width: columns of a terminal that shows colours; None draws without colours, on lines as long as needed.
    """
    from rich.console import Console
    from rich.tree import Tree

    console = Console(
        file=io.StringIO(),
        force_terminal=width is not None,
        color_system="standard" if width is not None else None,
        width=width or _PLAIN_WIDTH,
        highlight=False,
        legacy_windows=False,
    )
    root = Tree(_label(tree["root"], tree["optimizers"]), guide_style="dim")
    _grow(root, tree["root"], tree["optimizers"])
    console.print(root)
    console.print("\noptimizers:" if tree["optimizers"] else "\nno optimizers")
    for optimizer in tree["optimizers"]:
        console.print(_optimizer_line(optimizer), soft_wrap=width is None, markup=False)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines())


def optimizer_text(node: Node, optimizers: list[OptimizerEntry]) -> str:
    """Which optimizers handle a component: names with their numbers, or why there is none."""
    if not node["parameters"]:
        return ""
    if not node["optimizers"]:
        return "not trained"
    by_name: dict[str, list[str]] = {}
    for number in node["optimizers"]:
        by_name.setdefault(optimizers[number - 1]["name"], []).append(f"#{number}")
    names = ", ".join(" ".join([name, *numbers]) for name, numbers in by_name.items())
    fixed = node["parameters"] - node["trained"]
    return names if not fixed else f"{names}, {fixed:,} not trained"


def count_text(parameters: int) -> str:
    """A number of parameters in words."""
    return "1 parameter" if parameters == 1 else f"{parameters:,} parameters"


def ports_text(ports: Ports) -> str:
    """What goes in or out, on one line."""
    return ", ".join(port_texts(ports))


def port_texts(ports: Ports) -> list[str]:
    """What goes in or out, one text each; items of lists and tuples stand in their order, without names."""
    texts = [text if path.replace(".", "").isdigit() else f"{path} {text}".strip() for path, text in ports.items()]
    more = [f"... {len(texts) - _MOST_PORTS} more"] if len(texts) > _MOST_PORTS else []
    return texts[:_MOST_PORTS] + more


def _grow(branch: "Tree", node: Node, optimizers: list[OptimizerEntry]) -> None:
    for child in node["children"]:
        _grow(branch.add(_label(child, optimizers)), child, optimizers)


def _label(node: Node, optimizers: list[OptimizerEntry]) -> "Text":
    from rich.text import Text

    label = Text(no_wrap=False)
    label.append(node["name"], "bold")
    label.append(f"  {node['type']}", "cyan")
    if node["parameters"]:
        label.append(f"  {count_text(node['parameters'])}", "green")
        label.append(f"  {optimizer_text(node, optimizers)}", "yellow")
    for word, ports in (("in", node["inputs"]), ("out", node["outputs"]), ("state", node["state"])):
        if ports:
            label.append(f"\n  {word:<5} {ports_text(ports)}", "dim")
    return label


def _optimizer_line(optimizer: OptimizerEntry) -> str:
    settings = ", ".join(f"{key}={value}" for key, value in optimizer["settings"].items() if value is not False)
    return (
        f"  #{optimizer['number']} {optimizer['name']}  lr={optimizer['learning_rate']}  "
        f"{count_text(optimizer['parameters'])} of {', '.join(optimizer['components'])}\n     {settings}"
    )
