"""Components that installed packages bring, found by their entry points without importing them.

A package names them in the group `rein.components`; what stands before the dot says what they are:

    [project.entry-points."rein.components"]
    "intrinsic_reward.count_bonus" = "my_package.parts:count_bonus"
    "algorithm.my_ppo" = "my_package.confs.my_ppo"

See docs/composition.md for what they must be.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

GROUP = "rein.components"


class InstalledComponent(NamedTuple):
    """What an entry point says; nothing has been imported yet."""

    kind: str
    """`algorithm`, or the slot of an agent that it fills."""
    name: str
    package: str
    """The package that brings it, with its version."""
    entry_point: EntryPoint


def installed_components() -> list[InstalledComponent]:
    """All components of installed packages, sorted by name."""
    found = []
    for point in entry_points(group=GROUP):
        kind, _, name = point.name.rpartition(".")
        package = "unknown" if point.dist is None else f"{point.dist.name} {point.dist.version}"
        found.append(InstalledComponent(kind, name, package, point))
    return sorted(found, key=lambda component: (component.name, component.package))
