"""The documented names, parameters and defaults, against what the package has.

`catalogue.json` holds the documentation; `there.json` is the table of what exists so far: documented name ->
module of the package. What is documented and not in the table is to come. `docs/catalogue.md` shows both.
"""

import ast
import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

import rein

HERE = Path(__file__).parent
CATALOGUE = json.loads((HERE / "catalogue.json").read_text())
THERE: dict[str, str] = json.loads((HERE / "there.json").read_text())


def documented() -> dict[str, dict[str, Any]]:
    """Documented name ("module.Class") -> its entry; learners under "learners"."""
    entries = {}
    for module, classes in CATALOGUE["modules"].items():
        functions = classes.get("functions", {})
        for name, entry in classes.items():
            if name != "functions":
                entries[f"{module}.{name}"] = entry
        for name, entry in functions.items():
            params = [[p["name"], p["default"]] if "default" in p else [p["name"]] for p in entry["params"]]
            entries[f"{module}.{name}"] = {"params": params}
    entries.update({f"learners.{name}": entry for name, entry in CATALOGUE["learners"].items()})
    return entries


def find(name: str) -> Any:
    return getattr(importlib.import_module(THERE[name]), name.split(".")[-1])


def bare(text: str) -> Any:
    """A default in a form that can be compared: a literal, or the last name in its text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        names = re.sub(r"<(class|function|built-in method|built-in function) |['<>]| of type object", "", text)
        return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", names).strip()


def render(value: Any) -> Any:
    if isinstance(value, type) or inspect.isroutine(value):
        return value.__name__
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return bare(text)


def check_parameters(where: str, function: Any, params: list[list[str]]) -> list[str]:
    actual = {
        ("*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else "") + p.name: p
        for p in inspect.signature(function).parameters.values()
    }
    problems = []
    for name, *default in params:
        if name not in actual:
            problems.append(f"{where}: no parameter {name}")
            continue
        value = actual[name].default
        if not default and value is not inspect.Parameter.empty:
            problems.append(f"{where}.{name}: has a default, documented without")
        if default and (value is inspect.Parameter.empty or render(value) != bare(default[0])):
            problems.append(f"{where}.{name}: default {value!r}, documented {default[0]}")
    order = [name for name in actual if name in {p[0] for p in params}]
    if not problems and order != [p[0] for p in params]:
        problems.append(f"{where}: the parameters are in another order than documented")
    return problems


@pytest.mark.parametrize("name", sorted(THERE))
def test_documented_names_keep_parameters_defaults_and_members(name: str) -> None:
    entry = documented()[name]
    thing = find(name)
    fields = getattr(thing, "_fields", None)
    if fields is not None:
        missing = [p[0] for p in entry["params"] if p[0].split(":")[0] not in fields]
        assert not missing, f"{name}: no fields {missing}"
        return
    problems = check_parameters(name, thing, entry["params"])
    for method, params in entry.get("methods", {}).items():
        if not callable(getattr(thing, method, None)):
            problems.append(f"{name}: no method {method}")
        elif params and isinstance(params[0], list):
            problems += check_parameters(f"{name}.{method}", getattr(thing, method), params)
    problems += [f"{name}: no property {p}" for p in entry.get("properties", []) if not hasattr(thing, p)]
    assert not problems, "\n".join(problems)


def test_the_table_names_only_what_is_documented() -> None:
    assert set(THERE) <= set(documented())


def test_nothing_that_exists_is_missing_from_the_table() -> None:
    wanted = {name.split(".")[-1]: name for name in documented() if name not in THERE}
    found = []
    root = Path(rein.__file__).parent
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if "zoo" in parts or "__main__" in parts:
            continue  # Importing the folder of its tasks would hide the function of that name.
        name_of_module = ".".join(["rein", *(part for part in parts if part != "__init__")])
        module = importlib.import_module(name_of_module)
        for name, thing in vars(module).items():
            if name in wanted and getattr(thing, "__module__", "") == name_of_module:
                found.append(f"{wanted[name]} is in {name_of_module}: add it to there.json")
    assert not found, "\n".join(sorted(found))


def status_page() -> str:
    """The text of docs/catalogue.md."""
    entries = documented()
    lines = [
        "# What is there",
        "",
        f"{len(THERE)} of {len(entries)} documented classes, tuples and functions are there; each keeps its documented",
        "parameters and defaults (`tests/catalogue`). The rest is to come.",
        "",
        "| documented module | there | to come |",
        "|---|---|---|",
    ]
    modules = sorted({name.split(".")[0] for name in entries})
    for module in modules:
        names = [name for name in entries if name.split(".")[0] == module]
        there = ", ".join(f"`{n.split('.')[1]}`" for n in names if n in THERE)
        to_come = ", ".join(f"`{n.split('.')[1]}`" for n in names if n not in THERE)
        lines.append(f"| {module} | {there} | {to_come} |")
    return "\n".join(lines) + "\n"


def test_the_page_in_the_docs_is_current() -> None:
    page = HERE.parents[1] / "docs" / "catalogue.md"
    assert page.read_text() == status_page(), "run: python tests/catalogue/test_catalogue.py"


if __name__ == "__main__":
    (HERE.parents[1] / "docs" / "catalogue.md").write_text(status_page())
