"""Times one planning step against the matrix products that it consists of, in one run.

    python benchmarks/planning.py [--seconds 3] [--threads 1] [--json]

The step: one environment (3 observations, 1 action), 500 candidates, horizon 25, an ensemble of 5 models of 256x256;
random shooting, so that all candidates are evaluated once. The limit: the products of the same shapes alone, three per
imagined step, [5, 500, 4] x [5, 4, 256], [5, 500, 256] x [5, 256, 256] and [5, 500, 256] x [5, 256, 3], their results
written to memory that is there already; with weights stored by row or by column, whichever is faster. All take turns, so
that a slow phase of the machine hits all, and are timed in seconds of the processor, which other programs do not count
in; the best turn counts. "share" is the time of the limit over ours: at least 0.6 is the bar.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial

import torch

from rein.algorithms.model_based import (
    DeterministicDynamicsAlgorithm,
    FixedRewardFunction,
    MbrlAlgorithm,
    RandomShootingAlgorithm,
    pendulum_reward,
)
from rein.data_structures import restart
from rein.networks.state import zero_state
from rein.specs import BoundedTensorSpec, TensorSpec

CANDIDATES, HORIZON, REPLICAS, HIDDEN = 500, 25, 5, 256
OBSERVATION, ACTION = TensorSpec((3,)), BoundedTensorSpec((1,), torch.float32, -2, 2)
BAR = 0.6


def planning_step() -> Callable[[], object]:
    algorithm = MbrlAlgorithm(
        OBSERVATION,
        ACTION,
        FixedRewardFunction(pendulum_reward),
        partial(RandomShootingAlgorithm, population_size=CANDIDATES, planning_horizon=HORIZON),
        dynamics_module_ctor=partial(
            DeterministicDynamicsAlgorithm, hidden_size=(HIDDEN, HIDDEN), num_replicas=REPLICAS
        ),
    )
    time_step = restart(torch.randn(1, 3), ACTION)
    state = zero_state(algorithm.predict_state_spec, 1)
    return lambda: algorithm.predict_step(time_step, state)


def products(are_columns_contiguous: bool) -> Callable[[], object]:
    sizes = [(4, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 3)]
    inputs = [torch.randn(REPLICAS, CANDIDATES, before) for before, _ in sizes]
    weights = [torch.randn(REPLICAS, *size) for size in sizes]
    if are_columns_contiguous:
        weights = [weight.transpose(1, 2).contiguous().transpose(1, 2) for weight in weights]
    results = [torch.empty(REPLICAS, CANDIDATES, after) for _, after in sizes]

    def multiply() -> None:
        for _ in range(HORIZON):
            for x, weight, result in zip(inputs, weights, results, strict=True):
                torch.bmm(x, weight, out=result)

    return multiply


def best_times(contenders: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Seconds of the processor of the best call of each, taken in turns."""
    best = dict.fromkeys(contenders, float("inf"))
    with torch.no_grad():
        for call in contenders.values():
            call()
        end = time.process_time() + seconds
        while time.process_time() < end:
            for name, call in contenders.items():
                start = time.process_time()
                call()
                best[name] = min(best[name], time.process_time() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="of the processor, to measure for")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--json", action="store_true", help="print one object")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    contenders = {
        "planning step": planning_step(),
        "products, rows": products(are_columns_contiguous=False),
        "products, columns": products(are_columns_contiguous=True),
    }
    best = best_times(contenders, arguments.seconds)
    share = min(best["products, rows"], best["products, columns"]) / best["planning step"]
    if arguments.json:
        print(json.dumps({**best, "share": share, "bar": BAR}))
        return
    for name, value in best.items():
        print(f"{name:17} {1e3 * value:8.2f} ms")
    print(f"{'share':17} {share:8.2f}    (bar {BAR})")


if __name__ == "__main__":
    main()
