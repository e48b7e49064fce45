"""The installation: pieces that must work, and extras that may be there."""

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version

from rein.doctor.finding import Finding

_PACKAGE = "rein-rl"
_PIECES = ("numpy", "numba", "optree", "gymnasium", "safetensors", "tensorboard")
_NAME = re.compile(r"^[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_BUNDLES = ("all", "dev", "demo")


def pieces() -> Iterator[Finding]:
    """Packages that Rein cannot do without."""
    broken = []
    for name in _PIECES:
        try:
            import_module(name)
        except Exception as error:
            broken.append(name)
            reason = " ".join(str(error).split())
            yield Finding(name, "problem", f"cannot be imported: {reason}", f"pip install --force-reinstall {name}")
    if not broken:
        yield Finding("packages", "ok", ", ".join(f"{name} {version(name)}" for name in _PIECES))


def extras() -> Iterator[Finding]:
    """Extras of Rein, and the packages of each that are missing."""
    wanted = _wanted()
    if wanted is None:
        yield Finding(
            "extras", "missing", f"{_PACKAGE} is not installed as a package", "pip install -e . in its directory"
        )
        return
    missing = {extra: [name for name in names if not _is_installed(name)] for extra, names in wanted.items()}
    present = [extra for extra, names in missing.items() if not names]
    if present:
        yield Finding("extras", "ok", f"installed: {', '.join(present)}")
    for extra, names in missing.items():
        if names:
            yield Finding(
                f"extra {extra}", "missing", f"without {', '.join(names)}", f"pip install '{_PACKAGE}[{extra}]'"
            )


def _wanted() -> dict[str, list[str]] | None:
    """Names of the packages of each extra; None if Rein is not installed."""
    try:
        lines = requires(_PACKAGE) or []
    except PackageNotFoundError:
        return None
    found: dict[str, list[str]] = {}
    for line in lines:
        extra, name = _EXTRA.search(line), _NAME.match(line)
        if extra and name and extra[1] not in _BUNDLES:
            found.setdefault(extra[1], []).append(name[0])
    return found


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
