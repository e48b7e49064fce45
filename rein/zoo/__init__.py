"""The zoo: one conf per (algorithm, task) in `tasks/`, one base per algorithm in `bases/`, what they share in `parts/`.

A conf describes itself by its docstring and by a literal dict `ENTRY`, both read here without running it:

    \"\"\"PPO on CartPole-v1.\"\"\"
    ENTRY = {"algorithm": "PPOAlgorithm", "env": "CartPole-v1", "env_steps": 100_000, "bar": 490}

See docs/zoo.md for the keys.
"""

import ast
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from rein.config.installed import InstalledComponent, installed_components
from rein.config.names import did_you_mean

_HOME = Path(__file__).parent
_REQUIRED_KEYS = ("algorithm",)
_TASK_KEYS = ("env", "env_steps")
_DATA_TASK_KEYS = ("data", "epochs")


class ZooEntry(NamedTuple):
    """A conf of the zoo, as it describes itself."""

    name: str
    path: Path
    summary: str
    facts: Mapping[str, Any]
    """The dict `ENTRY`: algorithm, for a task env and env_steps, or data and epochs, and maybe bar, reference, notes."""

    @property
    def algorithm(self) -> str:
        """Class name of the algorithm."""
        return str(self.facts["algorithm"])

    @property
    def env(self) -> str | None:
        """Id of the environment; None for a base."""
        return self.facts.get("env")

    @property
    def is_supervised(self) -> bool:
        """Whether it is trained on labelled data instead of in an environment."""
        return "data" in self.facts

    def to_json(self) -> dict[str, Any]:
        """Everything in plain values."""
        return {"name": self.name, "summary": self.summary, "path": str(self.path), **self.facts}


class UnknownEntryError(ValueError):
    """There is no conf or algorithm of that name."""


@cache
def task_entries() -> dict[str, ZooEntry]:
    """All tasks by name, such as "ppo_cartpole"."""
    return _read_folder(_HOME / "tasks", _REQUIRED_KEYS, is_task=True)


@cache
def algorithms() -> dict[str, ZooEntry]:
    """The bases by the short name of their algorithm, such as "ppo"."""
    return _read_folder(_HOME / "bases", _REQUIRED_KEYS)


def find_task(name: str) -> ZooEntry:
    """The task of that name; an error that suggests the nearest if there is none."""
    return _find(name, task_entries(), "conf file or zoo entry", "rein list zoo")


def installed_algorithms() -> list[InstalledComponent]:
    """Bases that installed packages bring by entry points `algorithm.NAME`, which name a module that is a conf."""
    return [component for component in installed_components() if component.kind == "algorithm"]


def find_algorithm(name: str) -> ZooEntry:
    """The base of the algorithm of that short name, or of that class name, or one of an installed package."""
    by_name = algorithms()
    # Of several bases of one class, the one that is called like it.
    own_name_last = sorted(by_name.values(), key=lambda entry: entry.algorithm.lower().startswith(entry.name))
    by_class = {entry.algorithm.lower(): entry for entry in own_name_last}
    lowered = name.lower()
    if lowered in by_class and lowered not in by_name:
        return by_class[lowered]
    if lowered in by_name:
        return by_name[lowered]
    installed = installed_algorithms()
    for component in installed:
        if component.name == name:
            return _installed_entry(component)
    return _find(lowered, {**by_name, **{one.name: one for one in installed}}, "algorithm", "rein list algorithms")


def read_entry(path: Path) -> ZooEntry:
    """What a conf says about itself, without running it; `facts` is empty if it has no `ENTRY`."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    docstring = ast.get_docstring(tree) or ""
    facts: dict[str, Any] = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "ENTRY" for target in targets):
            assert isinstance(node, ast.Assign)
            facts = ast.literal_eval(node.value)
    return ZooEntry(path.stem, path, docstring.partition("\n")[0], facts)


def _read_folder(folder: Path, required: tuple[str, ...], is_task: bool = False) -> dict[str, ZooEntry]:
    paths = sorted(path for path in folder.glob("*.py") if path.stem != "__init__")
    entries = {path.stem: read_entry(path) for path in paths}
    for entry in entries.values():
        needed = required
        if is_task:
            needed += _DATA_TASK_KEYS if entry.is_supervised else _TASK_KEYS
        missing = [key for key in needed if key not in entry.facts]
        if missing:
            raise ValueError(f"{entry.path}: ENTRY lacks {', '.join(missing)}; it needs {', '.join(needed)}")
    return entries


def _installed_entry(component: InstalledComponent) -> ZooEntry:
    """The conf of an installed package, found without running it."""
    where = f"algorithm {component.name!r} of {component.package} ({component.entry_point.value})"
    try:
        found = find_spec(component.entry_point.module)
    except Exception as error:  # whatever the packages around the conf do wrong
        raise UnknownEntryError(f"{where} cannot be imported: {type(error).__name__}: {error}") from error
    if found is None or found.origin is None or not Path(found.origin).is_file():
        raise UnknownEntryError(f"{where} has no file: the entry point must name a module that is a conf")
    entry = read_entry(Path(found.origin))
    if "algorithm" not in entry.facts:
        raise UnknownEntryError(
            f"{where}: {entry.path} has no ENTRY that names its algorithm, as a conf of the zoo does"
        )
    return entry._replace(name=component.name)


def _find(name: str, known: Mapping[str, Any], what: str, command: str) -> ZooEntry:
    if name in known:
        entry: ZooEntry = known[name]
        return entry
    hint = did_you_mean(name, known) or f" `{command}` shows what there is."
    raise UnknownEntryError(f"there is no {what} {name!r}.{hint}")
