"""What confs say, read without running them: their hash tells whether a record is stale."""

import ast
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path


def hash_of_texts(texts: Iterable[tuple[str, str]]) -> str:
    """Hash of what confs do; comments, docstrings and `ENTRY` do not count.

    Args:
        texts: name and text of each file.
    """
    statements = [
        (name, [ast.dump(node) for node in ast.parse(text).body if _counts(node)]) for name, text in sorted(texts)
    ]
    return hashlib.sha256(json.dumps(statements).encode()).hexdigest()[:16]


def static_conf_hash(path: Path) -> str:
    """The hash of `rein.zoo.records.conf_hash`, found without running the conf.

    Args:
        path: a conf whose `import_config` calls have literal paths.
    """
    return hash_of_texts((file.name, text) for file, text in _with_imports(path.resolve(), {}).items())


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
    is_entry = any(isinstance(target, ast.Name) and target.id == "ENTRY" for target in targets)
    return not is_text and not is_entry
