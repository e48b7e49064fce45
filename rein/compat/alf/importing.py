"""`import alf` inside a block: modules that give our counterparts of its names, and vanish after it."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from rein.compat.alf.homes import HOMES, REAL, homes_of, missing_world
from rein.config import import_config

_PAGE = "see docs/from_alf.md"


class AlfNameError(AttributeError):
    """A name of ALF that has no counterpart here."""


class AlfModule(ModuleType):
    """A module of ALF by name only: asks our packages for what it is asked for."""

    def __getattr__(self, name: str) -> Any:
        module = self.__name__
        if name.startswith("__"):
            raise AttributeError(name)
        real = REAL.get(f"{module}.{name}")
        if real is not None:
            return import_module(real)
        if f"{module}.{name}" in HOMES:
            return import_module(f"{module}.{name}")
        homes = homes_of(module) or ()
        for home in homes:
            found = getattr(import_module(home), name, None)
            # A module of ours may have the name of one of ALF's and hold other things.
            if found is not None and not isinstance(found, ModuleType):
                return found
        if homes_of(f"{module}.{name}") is not None and name.islower():
            return import_module(f"{module}.{name}")
        for home in homes:
            if (found := _inside(home, name)) is not None:
                return found
        raise AlfNameError(f"{module}.{name} has no counterpart here: {_PAGE}")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Refuses: what looked like a module in an import was a function."""
        raise AlfNameError(f"{self.__name__} has no counterpart here: {_PAGE}")


def _inside(home: str, name: str) -> Any:
    """What a module inside of one of our packages calls so: a tuple or a part that the package does not show; or None."""
    package = import_module(home)
    if name.startswith("_"):
        return None
    for module in iter_modules(getattr(package, "__path__", ())):
        found = vars(import_module(f"{home}.{module.name}")).get(name)
        if found is not None and getattr(found, "__module__", "").startswith(home):
            return found
    return None


class _Finder(MetaPathFinder, Loader):
    """Finds modules of ALF: ours, or confs beside the one that is run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.confs: set[str] = set()
        """Confs that were imported by their bare names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _is_alf(fullname):
            if not fullname.endswith("_conf") or not (self._folder / f"{fullname}.py").exists():
                return None
            self.confs.add(fullname)
            return ModuleSpec(fullname, self)
        last = fullname.rpartition(".")[2]
        # Not a ModuleNotFoundError: `from alf.x import Name` would put a text of its own in the place of this one.
        if (world := missing_world(fullname)) is not None:
            raise ImportError(f"{fullname}: there is no {world} here: {_PAGE}", name=fullname)
        if homes_of(fullname) is None or not last.islower():
            raise ImportError(f"{fullname} has no counterpart here: {_PAGE}", name=fullname)
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.name in REAL:
            return import_module(REAL[spec.name])
        if spec.name.startswith("alf.examples.") or not _is_alf(spec.name):
            return self._conf(spec.name)
        return AlfModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run: names are looked up when they are asked for."""

    def _conf(self, name: str) -> ModuleType:
        """A conf that another imports as a module, found beside the one that is run."""
        file = self._folder.joinpath(*name.split(".")[2:]).with_suffix(".py")
        if not file.exists():
            file = self._folder / f"{name.rpartition('.')[2]}.py"
        if not file.exists():
            raise ImportError(f"{name}: there is no {file.name} beside the conf: put it into {self._folder}", name=name)
        return import_config(file)


@contextmanager
def alf_names(folder: Path) -> Iterator[None]:
    """A block in which `import alf` gives our counterparts; outside it is as it was.

    Args:
        folder: where the conf is, and confs that it imports as `alf.examples.NAME`.
    """
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_alf(name)}
    # The import system marks what a finder gives it as belonging to the name that was asked for.
    kept = {real: (ours.__spec__, ours.__loader__) for real in REAL.values() if (ours := import_module(real))}
    finder = _Finder(folder)
    sys.meta_path.insert(0, finder)
    try:
        import_module("alf.nest.utils")  # `alf.nest` is a module of ours, which has no such attribute by itself.
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _is_alf(name) or name in finder.confs]:
            del sys.modules[name]
        sys.modules.update(hidden)
        for real, (spec, loader) in kept.items():
            ours = sys.modules[real]
            ours.__spec__, ours.__loader__ = spec, loader
            for name in [name for name, value in vars(ours).items() if isinstance(value, AlfModule)]:
                delattr(ours, name)


def _is_alf(name: str) -> bool:
    return name == "alf" or name.startswith("alf.")
