"""Settings of runs out of the text of `config/operative.py`, which is parsed and never run, and their differences."""

import ast
from collections.abc import Sequence
from typing import Any

from rein.board.shelf import ShelvedRun
from rein.config.plain_files import PlainFileError, read_plain

_MOST_BYTES = 4 * 2**20
_IGNORED = ("TrainerConfig.root_dir",)


def read_settings(run: ShelvedRun) -> dict[str, str]:
    """Every setting that a run used, as text, by its full name; nothing if it has none that can be read."""
    path = run.directory.config / "operative.py"
    found: dict[str, str] = run.kept("settings", path, lambda: _read(run))
    return found


def _read(run: ShelvedRun) -> dict[str, str]:
    try:
        text = read_plain(run.directory.config / "operative.py", run.directory.path, _MOST_BYTES).decode()
        tree = ast.parse(text)
    except (PlainFileError, OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
    found: dict[str, str] = {}
    lines = _Lines(text)
    for node in tree.body:
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        if call.func.id == "define_config" and len(call.args) == 2 and isinstance(call.args[0], ast.Constant):
            found[str(call.args[0].value)] = lines.of(call.args[1])
        elif call.func.id == "config" and call.args and isinstance(call.args[0], ast.Dict):
            for key, value in zip(call.args[0].keys, call.args[0].values, strict=True):
                if isinstance(key, ast.Constant):
                    found[str(key.value)] = lines.of(value)
    return found


class _Lines:
    """The source of expressions; `ast.get_source_segment` splits the whole text anew for each."""

    def __init__(self, text: str) -> None:
        self._lines = [line.encode() for line in text.split("\n")]

    def of(self, node: ast.expr) -> str:
        """The text of an expression in one line."""
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        parts = self._lines[first : last + 1]
        parts[-1] = parts[-1][: node.end_col_offset]
        parts[0] = parts[0][node.col_offset :]
        return " ".join(b" ".join(parts).decode(errors="replace").split())


def short_name(name: str) -> str:
    """The last two parts of a setting's name, which tell it from nearly all others."""
    return ".".join(name.split(".")[-2:])


def compare(runs: Sequence[ShelvedRun]) -> dict[str, Any]:
    """Settings and facts of some runs side by side, ready for JSON; rows say whether their values differ."""
    settings = [read_settings(run) for run in runs]
    names = sorted({name for one in settings for name in one if not name.endswith(_IGNORED)})
    rows = []
    for name in names:
        values = [one.get(name) for one in settings]
        rows.append({"name": name, "short": short_name(name), "values": values, "differs": len(set(values)) > 1})
    return {"runs": [run.id for run in runs], "settings": rows}
