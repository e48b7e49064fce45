"""The rules of the house that a machine can check."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "rein").rglob("*.py"))


def test_imports_go_downward_only() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_package_has_a_layer() -> None:
    contract = (ROOT / "pyproject.toml").read_text()
    packages = {p.name for p in (ROOT / "rein").iterdir() if (p / "__init__.py").exists()}
    missing = [name for name in sorted(packages) if name not in contract.split("[tool.importlinter]")[1]]
    assert not missing, f"no layer for {missing} in pyproject.toml"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_module_without_a_subject_and_no_code_from_text(path: Path) -> None:
    if path.parent.parts[-3:] != ("compat", "sb3", "common"):  # Names that another library gives.
        assert path.stem not in {"utils", "common", "helpers", "misc"}
    tree = ast.parse(path.read_text())
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert "eval" not in calls
    imported = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    } | {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    if path.parts[-3:] != ("runtime", "processes", "sending.py"):
        # Worker processes get the user's own functions from their parent; nothing else may be unpickled.
        assert not imported & {"pickle", "cloudpickle", "dill"}, "checkpoints, configs and data never carry code"


def test_import_rein_is_light() -> None:
    code = "import sys, rein; print([m for m in ('torch','ray','gymnasium','matplotlib','numba') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
