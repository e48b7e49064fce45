"""The pages of the API reference: one for each package, with what its `__all__` names.

The packages are read, not imported. The texts come from the docstrings, by mkdocstrings.
"""

import ast
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[2] / "rein"
FOLDER = "api"
MODULES = ("data_structures", "specs")
LEFT_OUT = ("rein", "rein.cli", "rein.algorithms")
"""Packages without names of their own to call."""


class ApiPage(NamedTuple):
    """A page of the reference."""

    module: str
    names: list[str]

    @property
    def path(self) -> str:
        """Of the page, under docs/."""
        return f"{FOLDER}/{self.module.removeprefix('rein.')}.md"

    def text(self) -> str:
        """Markdown that mkdocstrings fills in."""
        blocks = [f"::: {self.module}.{name}\n" for name in self.names]
        # The description of the module comes first, without any of its members.
        head = f"# {self.module}\n\n::: {self.module}\n    options:\n      members: false\n      show_root_heading: false\n"
        head += "      show_root_toc_entry: false\n"
        return "\n".join([head, *blocks])


def api_pages() -> list[ApiPage]:
    """A page for each module and package that exports names, in the order of their names."""
    pages = [_page(PACKAGE / f"{module}.py") for module in MODULES]
    pages += [_page(path) for path in sorted(PACKAGE.glob("**/__init__.py"))]
    return [page for page in pages if page.names and page.module not in LEFT_OUT]


def _page(path: Path) -> ApiPage:
    folder = path.parent if path.name == "__init__.py" else path.with_suffix("")
    module = ".".join(("rein", *folder.relative_to(PACKAGE).parts))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = _exported(tree)
    defined = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return ApiPage(module, names if names is not None else [name for name in _unique(defined) if name[0] != "_"])


def _unique(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _exported(tree: ast.Module) -> list[str] | None:
    """The literal strings of `__all__`, or None if there is none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return [one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)]
    return None
