"""`examine`: every check in turn; one that fails by itself is a finding too."""

from collections.abc import Callable, Iterator

from rein.doctor.finding import Finding
from rein.doctor.installation import extras, pieces
from rein.doctor.machine import compiler, cores, disk, memory, python, shared_memory, torch_version
from rein.doctor.worlds import mujoco_rendering, video, worlds


def examine(quick: bool = False) -> Iterator[Finding]:
    """All findings, one after the other.

    Args:
        quick: leave out what takes seconds: making environments and rendering.
    """
    checks: list[Callable[[], Iterator[Finding]]] = [
        python,
        torch_version,
        cores,
        memory,
        shared_memory,
        disk,
        compiler,
        pieces,
        extras,
        video,
    ]
    if not quick:
        checks += [worlds, mujoco_rendering]
    for check in checks:
        yield from _safely(check)


def _safely(check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except Exception as error:
        name = getattr(check, "__name__", "check").replace("_", " ")
        reason = " ".join(str(error).split())
        yield Finding(name, "problem", f"could not be examined: {type(error).__name__}: {reason}", "report this line")
