"""What masks are worth: invalid actions in a training, and how soon the task is learnt, with and without its mask.

    python benchmarks/masked_way.py --out masked.jsonl
    python benchmarks/masked_way.py --table masked.jsonl

The task is that of `tests/training/masked_task.py`, by the defaults of each algorithm but for its `SETTINGS`. Evaluations on
the way count as well: what is invalid there is an invalid action.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

ALGORITHMS = ("ppo", "dqn", "sac")
_EVALUATIONS = 20
_LEARNT = 0.95


def run(algorithm: str, tells: bool, seed: int, steps: int) -> dict[str, Any]:
    """Invalid actions and the curve of evaluations of one training.

    Args:
        algorithm: name of it.
        tells: whether there is a mask.
        seed: of the training.
        steps: environment steps.
    """
    from tests.training.masked_task import illegal_and_curve

    illegal, curve = illegal_and_curve(algorithm, steps, tells, seed, _EVALUATIONS)
    return {
        "algorithm": algorithm,
        "mask": tells,
        "seed": seed,
        "steps": steps,
        "illegal": illegal,
        "learnt_after": learnt_after(curve),
        "curve": curve,
    }


def learnt_after(curve: list[tuple[int, float]]) -> int | None:
    """Steps at the first evaluation from which on all are at least 0.95; None if the last is not."""
    found = None
    for steps, value in reversed(curve):
        if value < _LEARNT:
            break
        found = steps
    return found


def table(file: Path) -> str:
    """A markdown table of what was run."""
    runs = {(one["algorithm"], one["seed"], one["mask"]): one for one in map(json.loads, file.open())}
    rows = ["| algorithm | seed | invalid actions with the mask | without | learnt with the mask after | without |"]
    rows.append("|---|---|---|---|---|---|")
    for algorithm, seed in sorted({key[:2] for key in runs}):
        pair = [runs.get((algorithm, seed, tells)) for tells in (True, False)]
        illegal = ["-" if one is None else f"{one['illegal']:,}" for one in pair]
        learnt = ["-" if one is None else _steps(one["learnt_after"]) for one in pair]
        rows.append(f"| {algorithm} | {seed} | {' | '.join(illegal + learnt)} |")
    return "\n".join(rows)


def _steps(number: int | None) -> str:
    return "not learnt" if number is None else f"{number:,} steps"


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=Path("masked.jsonl"))
    parser.add_argument("--table", type=Path, metavar="FILE", help="print a table of results")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(arguments.table))
        return
    for seed in arguments.seeds:
        for algorithm in arguments.algorithms:
            for tells in (True, False):
                record = run(algorithm, tells, seed, arguments.steps)
                with arguments.out.open("a") as file:
                    file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
