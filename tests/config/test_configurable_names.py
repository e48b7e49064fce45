"""The table of configurables, found in the source, against the source read properly."""

import ast
import subprocess
import sys
from pathlib import Path

import rein
from rein.config.configurable_names import configurable_names


def test_the_table_has_exactly_the_decorated_definitions() -> None:
    root = Path(rein.__file__).parent
    expected = set()
    for path in root.rglob("*.py"):
        relative = path.relative_to(root)
        if relative.parts[0] in ("zoo", "cli"):
            continue
        module = ".".join(["rein", *relative.with_suffix("").parts]).removesuffix(".__init__")
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
                if any(isinstance(name, ast.Name) and name.id == "configurable" for name in names):
                    expected.add(f"{module}.{node.name}")
    assert set(configurable_names()) == expected
    assert len(expected) > 50


def test_a_conf_needs_no_imports() -> None:
    """In a process of its own: here the module may have been imported, and its names belong to other tests."""
    code = (
        "from rein.config import config, get_config_value, install_name_resolver; install_name_resolver(); "
        "config('ppo_loss.PPOLoss', gamma=0.5); print(get_config_value('PPOLoss.gamma'))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "0.5"
