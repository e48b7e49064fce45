"""What confs say, read without running them: as long as that is unchanged, so are their settings."""

import ast
import hashlib
import json
from pathlib import Path

_ZOO = Path(__file__).parent


def text_hash(path: Path) -> str:
    """Hash of what a conf and all that it imports do; comments, docstrings and `ENTRY` do not count, nor where they lie.

    Args:
        path: a conf whose `import_config` calls have literal paths.
    """
    texts = _with_imports(path.resolve(), {})
    statements = [
        (file.name, [ast.dump(node) for node in tree.body if _counts(node)]) for file, tree in sorted(texts.items())
    ]
    return hashlib.sha256(json.dumps(sorted(statements)).encode()).hexdigest()[:16]


def _with_imports(path: Path, found: dict[Path, ast.Module]) -> dict[Path, ast.Module]:
    """The syntax of a conf and of all that it imports."""
    if path not in found:
        found[path] = ast.parse(path.read_text(encoding="utf-8"), str(path))
        for node in ast.walk(found[path]):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_config"
            ):
                written = ast.literal_eval(node.args[0])
                beside = (path.parent / written).resolve()
                _with_imports(beside if beside.exists() else (_ZOO / written).resolve(), found)
    return found


def _counts(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    targets = node.targets if isinstance(node, ast.Assign) else []
    is_entry = any(isinstance(target, ast.Name) and target.id == "ENTRY" for target in targets)
    return not is_text and not is_entry
