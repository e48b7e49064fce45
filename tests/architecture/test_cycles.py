"""No module imports itself in a circle: not at the top, not inside functions, not for type checkers."""

from pathlib import Path

import pytest

import rein
from tests.architecture.import_graph import FUNCTION, TOP, TYPING, Edges, cycles, edges, modules

# Circles that are known, by the package that they stay inside and the kind of import that closes them. This list only
# gets shorter: what is listed and no longer needed fails.
KNOWN = {
    ("rein.framework", FUNCTION): "an algorithm delegates to parts that ask what kind of algorithm it is",
    ("rein.framework", TYPING): "an algorithm delegates to parts that name its type",
    ("rein.networks", FUNCTION): "make_parallel of a network makes a ParallelNetwork, which is one",
    ("rein.runtime", TYPING): "what is active holds the run, which uses what is active",
}


@pytest.fixture(scope="module")
def found() -> Edges:
    return edges(modules(Path(rein.__file__).parent))


def inside(package: str, pair: tuple[str, str]) -> bool:
    return all(name.startswith(f"{package}.") for name in pair)


def is_known(pair: tuple[str, str], kinds: set[str]) -> bool:
    """Whether all imports of a pair are of a known kind and stay inside the package that they are known for."""
    return all(any(kind == known and inside(package, pair) for package, known in KNOWN) for kind in kinds)


def test_no_module_imports_itself_in_a_circle(found: Edges) -> None:
    graph = {pair for pair, kinds in found.items() if not is_known(pair, kinds)}
    assert not cycles(graph), "move what both need below both of them; the imports are " + str(
        {pair: found[pair] for group in cycles(graph) for pair in graph if pair[0] in group and pair[1] in group}
    )


def test_there_is_no_circle_at_the_top_at_all(found: Edges) -> None:
    assert not cycles({pair for pair, kinds in found.items() if TOP in kinds})


@pytest.mark.parametrize("entry", KNOWN, ids=str)
def test_what_is_known_is_still_there(found: Edges, entry: tuple[str, str]) -> None:
    package, kind = entry
    imports = {pair: kinds for pair, kinds in found.items() if inside(package, pair)}
    without = cycles({pair for pair, kinds in imports.items() if kinds != {kind}})
    assert cycles(imports.keys()) != without, f"no circle in {package} needs a {kind} import: take it off KNOWN"


def test_the_graph_sees_every_kind_of_import(tmp_path: Path) -> None:
    package = tmp_path / "house"
    (package / "room").mkdir(parents=True)
    files = {
        "__init__.py": "",
        "door.py": "from house import wall\n",
        "wall.py": "def build():\n    from .door import handle\n",
        "roof.py": "if TYPE_CHECKING:\n    from house.room import bed\nelse:\n    import house.wall\n",
        "room/__init__.py": "class A:\n    import house.roof\n",
        "room/bed.py": "import os\nfrom .. import roof\n",
    }
    for name, text in files.items():
        (package / name).write_text(text)
    found = edges(modules(package))
    assert found == {
        ("house.door", "house.wall"): {TOP},
        ("house.wall", "house.door"): {FUNCTION},
        ("house.roof", "house.room.bed"): {TYPING},
        ("house.roof", "house.wall"): {TOP},
        ("house.room", "house.roof"): {TOP},
        ("house.room.bed", "house.roof"): {TOP},
    }
    assert cycles(found.keys()) == [["house.door", "house.wall"], ["house.roof", "house.room.bed"]]
    assert cycles({("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")}) == [["a", "b", "c"]]
