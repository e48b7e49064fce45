"""`rein.nest.map_structure` beside bare `optree.tree_map`, over a nest of ten leaves.

python benchmarks/nest.py
"""

import statistics
import timeit
from typing import NamedTuple

import optree

from rein import nest


class Pair(NamedTuple):
    """A NamedTuple in the nest."""

    left: object
    right: object


DATA = {"a": 1, "b": (2, [3, 4], ()), "c": Pair(5, {"x": 6, "y": 7}), "d": {"z": (8, 9), "w": 10}}


def identity(*leaves: object) -> object:
    return leaves[0]


def race(nests: tuple[object, ...], rounds: int = 25, calls: int = 4_000) -> tuple[float, float, float]:
    """Median microseconds of ours and of optree, taking turns, and the median of the ratios of the rounds."""
    ours, bare = [], []
    for _ in range(rounds):
        ours.append(timeit.timeit(lambda: nest.map_structure(identity, *nests), number=calls) / calls * 1e6)
        bare.append(timeit.timeit(lambda: optree.tree_map(identity, *nests), number=calls) / calls * 1e6)
    ratios = [a / b for a, b in zip(ours, bare, strict=True)]
    return statistics.median(ours), statistics.median(bare), statistics.median(ratios)


def main() -> None:
    assert len(nest.flatten(DATA)) == 10
    for name, nests in (("one nest", (DATA,)), ("two nests", (DATA, DATA))):
        ours, bare, ratio = race(nests)
        print(f"{name}: rein.nest {ours:.2f} us, optree {bare:.2f} us, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
