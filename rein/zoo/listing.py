"""What is known of every entry of the zoo, for lists: nothing is run, and nothing heavy is imported."""

import ast
import hashlib
import json
from pathlib import Path
from typing import Any

from rein.zoo import ZooEntry, tasks

_HERE = Path(__file__).parent
_HOMES = (_HERE / "results", _HERE.parents[1] / "docs" / "results")
"""Where the records are: in an installed package, into which the build copies them (see setup.py), and in a checkout."""


def list_zoo() -> list[dict[str, Any]]:
    """Facts of each entry in plain values; `record` holds those of its verification, or None."""
    return [{**entry.to_json(), "record": _record_facts(entry)} for entry in tasks().values()]


def find_records() -> Path | None:
    """The folder of the records, if this installation has them."""
    return next((home for home in _HOMES if home.is_dir()), None)


def _record_facts(entry: ZooEntry) -> dict[str, Any] | None:
    folder = find_records()
    path = None if folder is None else folder / f"{entry.name}.json"
    if path is None or not path.exists():
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    seconds = [seed["seconds"] for seed in record["seeds"]]
    return {
        "score": record["score"],
        "met": record["met"],
        "seeds": [seed["seed"] for seed in record["seeds"]],
        "minutes": round(sum(seconds) / len(seconds) / 60, 2),
        "date": record.get("date"),
        "version": record["version"],
        "is_stale": record["conf_hash"] != static_conf_hash(entry.path),
    }


def static_conf_hash(path: Path) -> str:
    """The hash of `rein.zoo.records.conf_hash`, found without running the conf.

    Args:
        path: a conf whose `import_config` calls have literal paths.
    """
    files = sorted(_with_imports(path.resolve(), {}).items(), key=lambda item: (item[0].name, item[1]))
    statements = [
        (file.name, [ast.dump(node) for node in ast.parse(text).body if _counts(node)]) for file, text in files
    ]
    return hashlib.sha256(json.dumps(statements).encode()).hexdigest()[:16]


def _with_imports(path: Path, found: dict[Path, str]) -> dict[Path, str]:
    """The texts of a conf and of all that it imports."""
    if path not in found:
        found[path] = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(found[path])):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_config"
            ):
                _with_imports((path.parent / ast.literal_eval(node.args[0])).resolve(), found)
    return found


def _counts(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    targets = node.targets if isinstance(node, ast.Assign) else []
    return not is_text and not any(isinstance(target, ast.Name) and target.id == "ENTRY" for target in targets)
