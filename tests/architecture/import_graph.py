"""Who imports whom inside a package, read from the source: at the top, inside functions, and for type checkers only."""

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

TOP, FUNCTION, TYPING = "top", "function", "typing"
Edges = dict[tuple[str, str], set[str]]


def modules(package: Path) -> dict[str, Path]:
    """Dotted names of all modules below a package folder, with their files."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def edges(files: dict[str, Path]) -> Edges:
    """(importer, imported) -> kinds of the imports; `from package import submodule` counts as the submodule."""
    found: Edges = {}
    for name, path in files.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for node, kind in _imports(ast.parse(path.read_text(encoding="utf-8")), TOP):
            for target in _targets(node, package, files):
                if target != name:
                    found.setdefault((name, target), set()).add(kind)
    return found


def _imports(node: ast.AST, kind: str) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, kind
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for statement in child.body:
                yield from _imports(ast.Module([statement], []), TYPING)
            for statement in child.orelse:
                yield from _imports(ast.Module([statement], []), kind)
        else:
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _imports(child, FUNCTION if is_function and kind == TOP else kind)


def _targets(node: ast.Import | ast.ImportFrom, package: str, files: Collection[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in files)
        return
    base = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*above, *([base] if base else [])])
    for alias in node.names:
        full = f"{base}.{alias.name}"
        target = full if full in files else base
        if target in files:
            yield target


def cycles(graph: Collection[tuple[str, str]]) -> list[list[str]]:
    """Sets of modules that all reach each other (strongly connected, more than one), sorted."""
    reach: dict[str, set[str]] = {}
    after: dict[str, list[str]] = {}
    for importer, imported in graph:
        after.setdefault(importer, []).append(imported)
    for start in after:
        seen: set[str] = set()
        open_ends = list(after[start])
        while open_ends:
            name = open_ends.pop()
            if name not in seen:
                seen.add(name)
                open_ends.extend(after.get(name, ()))
        reach[start] = seen
    in_a_circle = {start: seen for start, seen in reach.items() if start in seen}
    groups = {
        frozenset(other for other in seen if start in reach.get(other, ())) for start, seen in in_a_circle.items()
    }
    return sorted(sorted(group) for group in groups if len(group) > 1)
