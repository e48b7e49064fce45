"""`rein.nest.map_structure` beside bare `optree.tree_map`, over a nest of ten leaves.

python benchmarks/nest.py
"""

import timeit
from typing import NamedTuple

import optree

from rein import nest


class Pair(NamedTuple):
    """A NamedTuple in the nest."""

    left: object
    right: object


DATA = {"a": 1, "b": (2, [3, 4], ()), "c": Pair(5, {"x": 6, "y": 7}), "d": {"z": (8, 9), "w": 10}}


def per_call(function: object, repeats: int = 7, calls: int = 20_000) -> float:
    """Median microseconds of one call."""
    times = sorted(timeit.repeat(function, number=calls, repeat=repeats))  # type: ignore[arg-type]
    return times[repeats // 2] / calls * 1e6


def identity(*leaves: object) -> object:
    return leaves[0]


def main() -> None:
    assert len(nest.flatten(DATA)) == 10
    for name, nests in (("one nest", (DATA,)), ("two nests", (DATA, DATA))):
        ours = per_call(lambda nests=nests: nest.map_structure(identity, *nests))
        bare = per_call(lambda nests=nests: optree.tree_map(identity, *nests))
        print(f"{name}: rein.nest {ours:.2f} us, optree {bare:.2f} us, ratio {ours / bare:.2f}")


if __name__ == "__main__":
    main()
